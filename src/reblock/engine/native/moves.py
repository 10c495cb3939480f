"""Calls the compiled library on arrays and paths.

Each call has a counterpart in Python (in `engine/pipeline`), for machines without the library and for tests that
compare both.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import byref, c_int64
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reblock.engine.native.loading import library, reason
from reblock.engine.native.structs import (
    PROBLEMS,
    BatchStruct,
    DecoderStruct,
    LookStruct,
    PassStruct,
    ResultStruct,
    WindowStruct,
)
from reblock.engine.view import Array
from reblock.geometry.axis import Ints
from reblock.model import Decoder, Flat, element

#: The most axes that the compiled loop handles; `moves.h` has the same number.
MAX_AXES = 32
_REFUSED = PROBLEMS.index("refused")


class Stamps(NamedTuple):
    """The state of a source's files at the start of a run."""

    table: npt.NDArray[np.uint16]
    """One stamp for each object, or for each group of objects."""
    share: int
    """Number of objects that share a stamp."""
    exact: bool
    """Whether a stamp describes a file, or only says whether it exists."""


def _functions() -> ctypes.CDLL:
    found = library()
    if found is None:
        raise OSError(reason())
    return found


def _accepted(count: int, name: str) -> int:
    """Check the count that a call returned; a negative one means that it refused its arguments, which is a bug."""
    if count < 0:
        raise RuntimeError(f"the compiled engine refused the arguments of {name}")
    return count


def address(array: Array) -> int:
    """Address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def settle(paths: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Inode, size and times of the last changes of durable files, which are dropped from the page cache."""
    seen = np.empty((len(paths), 4), np.uint64)
    count = _accepted(_functions().reblock_settle(len(paths), joined(paths)[0], address(seen)), "settle")
    if count < len(paths):
        number = int(seen[count, 0])
        raise OSError(number, os.strerror(number), paths[count])
    return seen


def look(paths: Sequence[str], number: int, into: LookStruct) -> None:
    """Add up the states of files; the first one belongs to the object with this number."""
    names = os.fsencode("\0".join(paths) + "\0")
    _accepted(_functions().reblock_look(len(paths), names, number, byref(into)), "look")


def joined(paths: Sequence[str]) -> tuple[bytes, Ints]:
    """The file names for one call, concatenated, and the start of each."""
    text = "\0".join(paths) + "\0"
    names: Sequence[str | bytes] = paths
    data = os.fsencode(text)
    if len(data) != len(text):
        names = [os.fsencode(path) for path in paths]
    return data, np.fromiter(accumulate((len(name) + 1 for name in names[:-1]), initial=0), np.int64, len(paths))


def decoder(given: Decoder | None) -> DecoderStruct | None:
    """A codec's decoder for the compiled loop; None if the library has no adapter for it."""
    found = library()
    if given is None or found is None:
        return None
    names = ("decode", "find") if given.table_bytes else ("decode",)
    try:
        functions = [getattr(found, f"reblock_{given.adapter}_{name}") for name in names]
    except AttributeError:
        return None
    context = np.array(given.context, np.int64)
    made = DecoderStruct(*(ctypes.cast(function, ctypes.c_void_p) for function in functions))
    made.table_bytes, made.lead_bytes, made.context = given.table_bytes, given.lead_bytes, address(context)
    made.planes = given.planes
    made.kept = context  # alive as long as the structure that points to it
    return made


def regroup(planes: Flat, width: int, out: Flat) -> None:
    """The elements of `width` bytes whose first bytes come first, then their second bytes, and so on."""
    _accepted(_functions().reblock_regroup(address(planes), planes.size // width, width, address(out)), "regroup")


def component(dtype: np.dtype[Any]) -> int:
    """Bytes of the scalars of a type that digests have to swap; 0 where there is nothing to swap."""
    if dtype == dtype.newbyteorder("<"):
        return 0
    if dtype.kind == "c":
        return dtype.itemsize // 2
    return 4 if dtype.kind == "U" else dtype.itemsize


class Moves:
    """The compiled loop for one pass; it keeps alive the arrays that its structures point to."""

    def __init__(
        self,
        *,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        source_order: Sequence[int],
        target_order: Sequence[int],
        fill: Array,
        fills: bool,
        direct: int,
        digest: bool,
        flags: int = 0,
        stamps: Stamps | None = None,
    ) -> None:
        self._library = _functions()
        orders = (np.array(one or [0], np.int64) for one in (shape, target_order, source_order))
        self._kept, self._stamps = (*orders, element(fill, dtype).reshape(1)), stamps
        seen: tuple[int | None, ...] = (1, 0, 0, None)
        if stamps is not None:
            seen = (stamps.share, int(stamps.exact), stamps.table.size, address(stamps.table))
        self._pass = PassStruct(
            *(len(shape), dtype.itemsize, component(dtype), int(digest), direct, int(fills), flags, *seen),
            *map(address, self._kept),
        )

    def scatter(self, window: WindowStruct, array: Array | Flat, place: Ints, completed: Ints) -> int:
        """Copy elements in memory into their write boxes; lists those now complete, and returns their number."""
        return _accepted(
            self._library.reblock_scatter(
                *(byref(self._pass), byref(window), address(array), address(place)),
                *(address(completed), completed.size),
            ),
            "scatter",
        )

    def read(
        self,
        window: WindowStruct,
        rows: Ints,
        paths: bytes,
        staging: Flat,
        result: ResultStruct,
        completed: Ints,
        *,
        room: int,
        batch_size: int = 1,
    ) -> bool:
        """Read raw pieces and scatter them; False if one failed, which `result` then describes.

        `batch_size` of them are read at once, each into `room` bytes of the staging memory.
        """
        batch = _batch(len(rows), address(rows), paths, staging, completed)
        failed = self._library.reblock_read(
            byref(self._pass), byref(window), byref(batch), room, batch_size, byref(result)
        )
        _accepted(-(result.problem == _REFUSED), "read")
        return not failed

    def fetch(self, row: int, paths: bytes, staging: Flat, most: int, *, direct: bool) -> Flat | None:
        """The stored bytes of an encoded unit, from the address of its row; None for anything unusual."""
        start, none = c_int64(), np.empty(1, np.int64)
        batch = _batch(1, row, paths, staging, none)
        length = self._library.reblock_fetch(byref(self._pass), byref(batch), most, direct, byref(start))
        return None if length < 0 else staging[start.value : start.value + length]

    def decode(
        self,
        window: WindowStruct,
        rows: Ints,
        paths: bytes,
        decoder: DecoderStruct,
        staging: Flat,
        decoded: Flat,
        result: ResultStruct,
        completed: Ints,
        *,
        most: int,
        direct: bool,
    ) -> list[int]:
        """Read encoded units, decode and scatter them; unusual ones are skipped and listed."""
        odd = np.empty(len(rows), np.int64)
        batch = _batch(len(rows), address(rows), paths, staging, completed)
        count = self._library.reblock_decode(
            *(byref(self._pass), byref(window), byref(batch), most, direct, byref(decoder)),
            *(address(decoded), decoded.size, byref(result), address(odd)),
        )
        listed: list[int] = odd[: _accepted(count, "decode")].tolist()
        return listed

    def write(self, rows: Ints, paths: bytes, result: ResultStruct) -> bool:
        """Write complete boxes; False if one failed, which `result` then describes."""
        failed = self._library.reblock_write(len(rows), address(rows), paths, len(paths), byref(result))
        _accepted(-(result.problem == _REFUSED), "write")
        return not failed


def _batch(count: int, rows: int, paths: bytes, staging: Flat, completed: Ints) -> BatchStruct:
    names = ctypes.cast(ctypes.c_char_p(paths), ctypes.c_void_p)
    return BatchStruct(
        *(count, rows, len(paths), names, staging.size, address(staging), completed.size, address(completed))
    )
