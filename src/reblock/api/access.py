"""Accesses that a caller names: a file, a preset or a log, made into a pattern for an array."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping

from reblock.advisor.document import PRESETS, ArrayAxes, from_document, from_presets, from_text, is_preset
from reblock.advisor.reads import classify
from reblock.api.access_log import location_name
from reblock.api.log_reading import read_log
from reblock.api.request import AccessGiven
from reblock.errors import DiskError, FormatError, UsageError, option
from reblock.model import AccessPattern, Alignment
from reblock.storage.checks import parse_json
from reblock.storage.location import Where
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, read_whole

#: The largest file of a pattern in bytes.
_MAX_BYTES = 8 << 20


def find_pattern(
    access: AccessGiven | None,
    log: Where | None,
    axes: ArrayAxes,
    *,
    location: str | None = None,
    model: str | None = None,
) -> AccessPattern | None:
    """The pattern that was named, checked against the array; None if none was."""
    if access is not None and log is not None:
        raise UsageError(f"give {option('access')} or {option('log')}, not both")
    alignment = None if model is None else _model(model)
    if log is not None:
        array = None if location is None else location_name(location)
        accesses, notes = read_log(log, array, axes.shape)
        pattern = classify(accesses, axes.shape, notes)
    elif access is not None:
        pattern = _given(access, axes)
    else:
        if alignment is not None:
            raise UsageError(f"{option('model')} is for a pattern: give {option('access')} or {option('log')}")
        return None
    return pattern if alignment is None else pattern.aligned(alignment)


def _model(model: str) -> Alignment:
    if model not in (Alignment.ALIGNED, Alignment.ANYWHERE):
        raise UsageError(f"{option('model')} is {Alignment.ALIGNED} or {Alignment.ANYWHERE}, not {model!r}")
    return Alignment(model)


def _given(access: AccessGiven, axes: ArrayAxes) -> AccessPattern:
    if isinstance(access, AccessPattern):
        access.check(axes.shape)
        return access
    if isinstance(access, Mapping):
        return from_document(access, axes)
    if isinstance(access, str) and is_preset(access):
        return from_presets(access, axes)
    path = os.fspath(access)
    if not exists(LOCAL, path):
        raise UsageError(f"{path!r} is neither a file nor a preset of accesses: presets are {', '.join(PRESETS)}")
    try:
        return _read(path, axes)
    except DiskError:
        raise
    except (UsageError, FormatError) as error:
        raise UsageError(f"the access pattern in {path} cannot be used: {error.message}") from error


def _read(path: str, axes: ArrayAxes) -> AccessPattern:
    data = read_whole(LOCAL, path, limit_bytes=_MAX_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError("it is not text") from None
    kind = os.path.splitext(path)[1].lower()
    if kind == ".json" or text.lstrip().startswith("{"):
        return from_document(parse_json(data, where=path), axes)
    if kind == ".toml" or _is_toml(text):
        try:
            document = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UsageError(f"it is not valid TOML: {error}") from None
        return from_document(document, axes)
    return from_text(text, axes)


def _is_toml(text: str) -> bool:
    """Whether a text is TOML rather than numbers."""
    return any("=" in line or line.lstrip().startswith("[") for line in text.splitlines() if line[:1] != "#")
