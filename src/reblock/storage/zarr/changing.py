"""Change existing zarr arrays: check that chunks can be replaced, and store new lengths in the metadata."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from reblock.errors import UsageError
from reblock.model.medium import Medium
from reblock.model.schema import Record
from reblock.storage.checks import load_json
from reblock.storage.codecs.chain import Chain
from reblock.storage.media.small import exists
from reblock.storage.records import ATTRIBUTE, MEMBER, RECORD_FILE, record_to_json
from reblock.storage.zarr.files import encode_json
from reblock.storage.zarr.meta import Meta

_V3, _V2, _ATTRIBUTES = "zarr.json", ".zarray", ".zattrs"


def check_patchable(meta: Meta, location: str) -> None:
    """Raise UsageError if chunks of an array can be read, but not written as they are."""
    if not isinstance(meta.chain, Chain):
        raise UsageError(
            f"{location}: shards inside other shards, or with codecs around them, cannot be written: write a new array"
        )


def describe_again(medium: Medium, folder: str, version: int, shape: Sequence[int], record: Record) -> None:
    """Replace shape and record in the metadata of an array; everything else in it stays."""
    if version == 3:
        path = os.path.join(folder, _V3)
        document = load_json(path, medium=medium)
        changed = _with_record({**document, "shape": list(shape)}, record)
        if isinstance(attributes := document.get("attributes"), dict) and ATTRIBUTE in attributes:
            changed["attributes"] = _without(attributes, ATTRIBUTE)
        _replace(medium, path, document, changed)
        return
    _describe_v2(medium, folder, shape, record)


def _with_record(document: dict[str, Any], record: Record) -> dict[str, Any]:
    """The document of a v3 array with another record; the types of its attributes stay."""
    before = document.get(MEMBER)
    kept = _without(before, "digest", "job") if isinstance(before, dict) else {"must_understand": False}
    hidden = {**kept, **record_to_json(record)}
    rest = _without(document, MEMBER)
    return rest if hidden == {"must_understand": False} else {**rest, MEMBER: hidden}


def _describe_v2(medium: Medium, folder: str, shape: Sequence[int], record: Record) -> None:
    path = os.path.join(folder, RECORD_FILE)
    before = load_json(path, medium=medium) if exists(medium, path) else {}
    hidden = {**_without(before, "digest", "job"), **record_to_json(record)}
    if hidden:
        _replace(medium, path, before, hidden)
    elif before:
        medium.remove(path)
        medium.sync(folder)
    path = os.path.join(folder, _ATTRIBUTES)
    attributes = load_json(path, medium=medium) if exists(medium, path) else {}
    _replace(medium, path, attributes, _without(attributes, ATTRIBUTE))
    # The lengths come last: they make new chunks visible.
    path = os.path.join(folder, _V2)
    document = load_json(path, medium=medium)
    _replace(medium, path, document, {**document, "shape": list(shape)})


def _replace(medium: Medium, path: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    if now != before:
        medium.replace(path, encode_json(now))


def _without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in names}
