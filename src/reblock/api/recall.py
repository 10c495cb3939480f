"""Recall: the options of a run, kept in its journal, so that `resume` needs none of them.

A request holds what was given and nothing else, normalised: whole paths, bytes, and text as the command line takes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from reblock.api.array import Array
from reblock.api.conversion import fill_text
from reblock.api.dataset_types import fills_text, types_text
from reblock.api.devices import AUTO_DEVICE, find_device
from reblock.api.ends import Request
from reblock.api.spreading import parse_disks
from reblock.engine import View
from reblock.geometry.grid import Cut
from reblock.model import Device, ObjectBound, Schema, TreeStore
from reblock.model.change import Change
from reblock.storage.location import Location, absolute

#: Options of `run`; all others are those of `plan`.
RUN_OPTIONS = ("scratch", "digest", "overwrite")
#: Arguments that describe a source without files: such a plan cannot be run.
_SHAPES = ("shape", "source_chunks", "source_codec")
#: Arguments that are not remembered.
_FORGOTTEN = (*_SHAPES, "workers")
_DEVICES = ("device", "target_device", "scratch_device")
_USUAL = {
    "strategy": "auto",
    "objective": "time",
    "device": AUTO_DEVICE,
    "on_missing": "fill",
    "memory_model": "allocated",
}


def remember(
    asked: Request, view: View, target: Location | None, wanted: Schema, change: Change | None = None
) -> dict[str, Any]:
    """The request that a plan was made for: arguments as they were given, and what became of some of them."""
    given = {
        **{one.name: getattr(asked, one.name) for one in fields(asked) if one.name not in _FORGOTTEN},
        "memory": asked.memory_bytes,
        "scratch_limit": asked.scratch_bytes,
        "allow_external": tuple(asked.allow_external),
    }
    where = Location.parse(view.store.location)
    ranges = zip(view.region.start, view.region.stop, strict=True)
    known = {
        "source": str(Location(absolute(where.path), where.inner)),
        "target": "" if target is None else _target(target),
        "chunks": ",".join(map(_cut_text, wanted.chunks)),
        "shards": ",".join(map(str, wanted.shards or ())),
        "chunk_order": wanted.chunk_order,
        # Its result is in the chunks.
        "access": "",
        "transpose": ",".join(map(str, view.axes)),
        "region": ",".join(f"{start}:{stop}" for start, stop in ranges),
        "codec": str(wanted.codec),
        "dtype": wanted.dtype.str,
        "fill_value": fill_text(wanted.fill_value),
        "allow_external": list(getattr(view.store.roots, "allowed", ())),
        "disks": list(parse_disks(asked.disks)),
        **({} if change is None else _change_text(change)),
    }
    if isinstance(view.store, ObjectBound):
        # An object has no address.
        known["source"] = ""
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name == "source" or not _is_usual(name, value):
            made[name] = _device(value) if name in _DEVICES else known.get(name, value)
    if isinstance(given["source"], Array):
        made |= {"from_format": view.store.format, "allow_external": known["allow_external"]}
    return {name: value for name, value in made.items() if value not in ("", [])}


def remember_dataset(asked: Request, source: TreeStore, target: Location | None) -> dict[str, Any]:
    """The request that the plans of a dataset were made for."""
    where = Location.parse(source.location)
    given = {
        **{one.name: getattr(asked, one.name) for one in fields(asked) if one.name not in _FORGOTTEN},
        "memory": asked.memory_bytes if asked.memory is not None else None,
        "scratch_limit": asked.scratch_bytes,
        "source": str(Location(absolute(where.path), where.inner)),
        "target": "" if target is None else _target(target),
        "codec": None if asked.codec is None else str(asked.codec),
        "dtype": types_text(asked.dtype),
        "fill_value": fills_text(asked.fill_value),
        "allow_external": list(getattr(source.roots, "allowed", ())),
        **{name: _by_axis_text(getattr(asked, name)) for name in ("chunks", "shards", "region", "transpose")},
        **{name: list(_patterns(getattr(asked, name))) for name in ("include", "exclude")},
    }
    made = {
        name: _device(value) if name in _DEVICES else value
        for name, value in given.items()
        if not _is_usual(name, value)
    }
    return {name: value for name, value in made.items() if value not in ("", [])}


def _patterns(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given


def _by_axis_text(value: Any) -> str | None:
    """An option by axis as the command line takes it."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        return str(value) if not isinstance(value, Sequence) else ",".join(map(str, value))
    return ",".join(f"{axis}={_item_text(item)}" for axis, item in value.items())


def _item_text(item: Any) -> str:
    if isinstance(item, slice):
        return ":".join("" if part is None else str(part) for part in (item.start, item.stop))
    return "+".join(map(str, item)) if isinstance(item, Sequence) and not isinstance(item, str) else str(item)


def recalled(request: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of `plan` and of `run` that make the same of a request again."""
    wanted = {
        name: Device.from_json(value) if name in _DEVICES and isinstance(value, dict) else value
        for name, value in request.items()
    }
    run = {name: wanted.pop(name) for name in RUN_OPTIONS if name in wanted}
    return wanted, run


def _is_usual(name: str, value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | tuple) and value in ((), _USUAL.get(name)))


def _target(target: Location) -> str:
    return str(Location(absolute(target.path), target.inner)) + ("/" if target.is_folder else "")


def _change_text(change: Change) -> dict[str, str]:
    """The axis or the region of a change, as the command line takes them."""
    pairs = zip(change.box.start, change.box.stop, strict=True)
    region = ",".join(f"{start}:{stop}" for start, stop in pairs) or "..."
    return {"append_along": str(change.along), "into_region": region}


def _cut_text(cut: Cut) -> str:
    return str(cut) if isinstance(cut, int) else "+".join(map(str, cut))


def _device(value: Any) -> Any:
    """A preset by its name; a device that is described, as it is now."""
    if isinstance(value, str) and not os.path.exists(value):
        return value
    return find_device(value).to_json()
