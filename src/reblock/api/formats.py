"""Formats: which are installed, what each can hold, and what to install for the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reblock.errors import UsageError
from reblock.model import Codec, Foreseeable, Format, Schema, TreeFormat
from reblock.model.store import is_single_file
from reblock.storage import registry
from reblock.storage.library import ReadByLibrary
from reblock.storage.media.memory import MEMORY

#: What a format may keep, and an array that has it; shapes and types are those that most formats hold.
_PLAIN = Schema((4, 16, 16), np.dtype("<i2"), (4, 16, 16))
_HELD: dict[str, tuple[str, dict[str, Any]]] = {
    "chunks": ("chunks", {"chunks": (1, 16, 16)}),
    "irregular chunks": ("chunks", {"chunks": ((1, 3), 16, 16)}),
    "shards": ("shards", {"chunks": (1, 16, 16), "shards": (2, 16, 16)}),
    "codec": ("codec", {"codec": Codec.parse("zlib:4")}),
    "fill value": ("fill_value", {"fill_value": np.int16(3)}),
    "attributes": ("attributes", {"attributes": {"units": "K"}}),
    "axis names": ("axes", {"axes": ("depth", "lat", "lon")}),
    "affine": ("attributes", {"attributes": {"affine": np.diag([2.0, 2.0, 2.0, 1.0]).tolist()}}),
}


@dataclass(frozen=True)
class FormatInfo:
    """What a format can do."""

    name: str
    """As in `--from` and `--to`."""
    suffixes: tuple[str, ...]
    """File name endings."""
    missing: str
    """Why it cannot be used and what to install; "" if it can."""
    writes: bool = False
    """Whether it can be written; every format can be read."""
    datasets: bool = False
    """Whether it holds several arrays."""
    keeps: tuple[str, ...] = ()
    """What it keeps of an array, beside shape, type and elements."""
    resumes: bool = True
    """Whether a target is continued after a kill; otherwise it is made again."""
    local: bool = False
    """Whether it needs local files."""
    library: bool = False
    """Whether `verify --reader library` can read it."""

    def to_json(self) -> dict[str, Any]:
        """What `reblock formats --json` prints of it."""
        return {
            "name": self.name,
            "suffixes": list(self.suffixes),
            "available": not self.missing,
            "missing": self.missing or None,
            "reads": not self.missing,
            "writes": self.writes,
            "datasets": self.datasets,
            "keeps": list(self.keeps),
            "resumes": self.resumes,
            "local_only": self.local,
            "second_reader": self.library,
        }


def formats() -> list[FormatInfo]:
    """Every format that is known, with what it keeps, and what to install if it cannot be used.

    Examples
    --------
    >>> import reblock
    >>> {one.name: one.suffixes for one in reblock.formats()}["npy"]
    ('.npy',)
    """
    return [_describe(name) for name in registry.formats()]


def _describe(name: str) -> FormatInfo:
    try:
        kind = registry.get(name)
    except UsageError as error:
        return FormatInfo(name, registry.suffixes_of(name), error.message)
    keeps = tuple(word for word, (field, changes) in _HELD.items() if _keeps(kind, field, changes))
    if "attributes" in keeps:
        # Then it keeps an affine, too.
        keeps = tuple(word for word in keeps if word != "affine")
    return FormatInfo(
        *(name, tuple(kind.suffixes), ""),
        writes=_writes(kind),
        datasets=isinstance(kind, TreeFormat),
        keeps=keeps,
        # A format says so if its targets cannot be continued.
        resumes=bool(getattr(kind, "resumes", True)),
        local=name in registry.file_formats() and not is_single_file(kind) and _is_local(kind),
        library=isinstance(kind, ReadByLibrary),
    )


def _keeps(kind: Format, field: str, changes: dict[str, Any]) -> bool:
    wanted = replace(_PLAIN, **changes)
    try:
        adapted = kind.adapt(wanted, ())
        found, asked = getattr(adapted, field), getattr(wanted, field)
        if field == "attributes":
            return all(key in found and _is_same(found[key], value) for key, value in asked.items())
        # Another level, or another codec that does the same, is a codec as well.
        return bool(found) if field == "codec" else bool(found == asked)
    except (UsageError, TypeError, ValueError):
        return False


def _is_same(found: Any, value: Any) -> bool:
    """Whether an attribute is kept; NetCDF has text as bytes."""
    return bool(np.array_equal(found.decode() if isinstance(found, bytes) else found, value))


def _writes(kind: Format) -> bool:
    try:
        kind.layout(kind.adapt(_PLAIN, ()))
    except UsageError:
        return False
    return True


def _is_local(kind: Format) -> bool:
    """Whether it refuses a target that is not a local file."""
    if not isinstance(kind, Foreseeable):
        return False
    suffix = kind.suffixes[0] if kind.suffixes else ""
    try:
        kind.foresee(f"memory://formats/x{suffix}", "", kind.adapt(_PLAIN, ()), medium=MEMORY)
    except UsageError:
        return True
    return False
