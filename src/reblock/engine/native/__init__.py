"""The compiled loop (`moves.h`): where it is, and what its arguments mean.

Everything here has a counterpart in Python that does the same (`reading.py`, `encoded.py`, `writing.py`,
`scatter.py`), for machines where the loop was not built, and for tests to hold it against.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reblock.engine.view import Array
from reblock.geometry.axis import Ints
from reblock.model import Decoder as Functions
from reblock.model import Flat, element

#: Columns of a raw piece before those of its axes: file, path, first byte, size, whether exactly that, whether whole,
#: and the number of its object.
HEAD = 7
#: What a call was doing when it failed, in the order of `moves.h`.
PROBLEMS = (
    "",
    "opening",
    "missing",
    "reading",
    "wrong size",
    "short",
    "changed",
    "writing",
    "creating the folder of",
    "closing",
)
#: Decoders that it knows, in its order.
DECODERS = ("blosc", "zstd", "blosc blocks")


class Pass(Structure):
    """What is the same for a whole pass."""

    _fields_ = (
        ("ndim", c_int64),
        ("itemsize", c_int64),
        ("component", c_int64),
        ("digest", c_int64),
        ("direct", c_int64),
        ("fills", c_int64),
        ("flags", c_int64),
        ("share", c_int64),
        ("exact", c_int64),
        ("stamps", c_void_p),
        ("shape", c_void_p),
        ("target_order", c_void_p),
        ("source_order", c_void_p),
        ("fill", c_void_p),
    )


class Window(Structure):
    """The write boxes that a read box meets."""

    _fields_ = (("counts", c_void_p), ("cuts", c_void_p), ("lengths", c_void_p), ("table", c_void_p))


class Result(Structure):
    """What became of a call: where it stopped and why, and what it did until then."""

    _fields_ = tuple(
        (name, c_int64)
        for name in (
            *("row", "problem", "error", "offset", "length", "found"),
            *("opens", "runs", "seeks", "bytes", "elements", "missing", "completed"),
            *("io_ns", "decode_ns", "scatter_ns"),
        )
    )


class Look(Structure):
    """What many files look like: see `seen.py`."""

    _fields_ = (
        *(("firm", c_uint64), ("full", c_uint64), ("present", c_int64), ("newest", c_int64)),
        *(("fresh", c_int64), ("share", c_int64), ("exact", c_int64), ("stamps", c_void_p), ("since", c_int64)),
        *(("suspects", c_int64), ("list", c_void_p)),
    )


class Stamps(NamedTuple):
    """What the files of a source looked like at the start."""

    table: npt.NDArray[np.uint16]
    """One stamp for an object, or for some."""
    share: int
    """Objects that share one."""
    exact: bool
    """Whether a stamp tells what a file looks like, or only which of them are there."""


class Decoder(Structure):
    """How units are decoded."""

    _fields_ = (
        *(("kind", c_int64), ("decode", c_void_p), ("measure", c_void_p)),
        *(("blocks", c_int64), ("block", c_int64)),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The compiled loop, where it was built."""
    path = os.path.join(os.path.dirname(__file__), "libmoves.so")
    try:
        found = ctypes.CDLL(path)
    except OSError:
        return None
    found.reblock_scatter.argtypes = [POINTER(Pass), POINTER(Window), c_void_p, c_void_p, c_void_p]
    found.reblock_scatter.restype = c_int64
    found.reblock_read.argtypes = [
        *(POINTER(Pass), POINTER(Window), c_int64, c_void_p, c_char_p),
        *(c_void_p, c_int64, c_int64, POINTER(Result), c_void_p),
    ]
    found.reblock_read.restype = c_int
    found.reblock_fetch.argtypes = [POINTER(Pass), c_void_p, c_char_p, c_int64, c_int, c_void_p, POINTER(c_int64)]
    found.reblock_fetch.restype = c_int64
    found.reblock_decode.argtypes = [
        *(POINTER(Pass), POINTER(Window), c_int64, c_void_p, c_char_p, c_int64, c_int, POINTER(Decoder)),
        *(c_void_p, c_void_p, POINTER(Result), c_void_p, c_void_p),
    ]
    found.reblock_decode.restype = c_int64
    found.reblock_write.argtypes = [c_int64, c_void_p, c_char_p, POINTER(Result)]
    found.reblock_write.restype = c_int
    found.reblock_look.argtypes = [c_int64, c_char_p, c_int64, POINTER(Look)]
    found.reblock_look.restype = None
    found.reblock_settle.argtypes = [c_int64, c_char_p, c_void_p]
    found.reblock_settle.restype = c_int64
    return found


def address(array: Array) -> int:
    """Where an array's first element is."""
    return int(array.__array_interface__["data"][0])


def settle(paths: Sequence[str]) -> npt.NDArray[np.uint64]:
    """What durable files look like, which the page cache may forget: inode, size, and times of their last changes."""
    found = library()
    if found is None:
        raise OSError("the compiled loop was not built")
    seen = np.empty((len(paths), 4), np.uint64)
    count = found.reblock_settle(len(paths), joined(paths)[0], address(seen))
    if count < len(paths):
        number = int(seen[count, 0])
        raise OSError(number, os.strerror(number), paths[count])
    return seen


def look(paths: Sequence[str], number: int, into: Look) -> None:
    """Add up what files look like; the first one is of the object with this number."""
    found = library()
    if found is None:
        raise OSError("the compiled loop was not built")
    found.reblock_look(len(paths), os.fsencode("\0".join(paths) + "\0"), number, byref(into))


def joined(paths: Sequence[str]) -> tuple[bytes, Ints]:
    """File names for one call, one behind the other, and where each starts."""
    text = "\0".join(paths) + "\0"
    names: Sequence[str | bytes] = paths
    data = os.fsencode(text)
    if len(data) != len(text):
        names = [os.fsencode(path) for path in paths]
    return data, np.fromiter(accumulate((len(name) + 1 for name in names[:-1]), initial=0), np.int64, len(paths))


class Moves:
    """The compiled loop for one pass; keeps alive what it points to."""

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
        found = library()
        if found is None:
            raise OSError("the compiled loop was not built")
        self._library = found
        orders = (np.array(one or [0], np.int64) for one in (shape, target_order, source_order))
        self._kept, self._stamps = (*orders, element(fill, dtype).reshape(1)), stamps
        seen = (1, 0, None) if stamps is None else (stamps.share, int(stamps.exact), address(stamps.table))
        self._pass = Pass(
            *(len(shape), dtype.itemsize, component(dtype), int(digest), direct, int(fills), flags, *seen),
            *map(address, self._kept),
        )

    def scatter(self, window: Window, array: Array | Flat, place: Ints, completed: Ints) -> int:
        """Copy elements in memory into their write boxes; lists those now complete, and says how many they are."""
        return int(
            self._library.reblock_scatter(
                byref(self._pass), byref(window), address(array), address(place), address(completed)
            )
        )

    def read(
        self,
        window: Window,
        rows: Ints,
        paths: bytes,
        staging: Flat,
        result: Result,
        completed: Ints,
        *,
        room: int,
        together: int = 1,
    ) -> bool:
        """Read raw pieces and scatter them; False where one failed, which `result` then describes.

        Some are read together, each into so much `room` of the staging memory.
        """
        failed = self._library.reblock_read(
            *(byref(self._pass), byref(window), len(rows), address(rows), paths),
            *(address(staging), room, together, byref(result), address(completed)),
        )
        return not failed

    def fetch(self, row: int, paths: bytes, staging: Flat, most: int, *, direct: bool) -> Flat | None:
        """The stored bytes of an encoded unit, from the address of its row; None for anything out of the ordinary."""
        start = c_int64()
        length = self._library.reblock_fetch(
            byref(self._pass), row, paths, most, direct, address(staging), byref(start)
        )
        return None if length < 0 else staging[start.value : start.value + length]

    def decode(
        self,
        window: Window,
        rows: Ints,
        paths: bytes,
        decoder: Decoder,
        staging: Flat,
        decoded: Flat,
        result: Result,
        completed: Ints,
        *,
        most: int,
        direct: bool,
    ) -> list[int]:
        """Read encoded units, decode and scatter them; those out of the ordinary are left out, and listed."""
        odd = np.empty(len(rows), np.int64)
        count = self._library.reblock_decode(
            *(byref(self._pass), byref(window), len(rows), address(rows), paths, most, direct, byref(decoder)),
            *(address(staging), address(decoded), byref(result), address(completed), address(odd)),
        )
        listed: list[int] = odd[:count].tolist()
        return listed

    def write(self, rows: Ints, paths: bytes, result: Result) -> bool:
        """Write complete boxes; False where one failed, which `result` then describes."""
        return not self._library.reblock_write(len(rows), address(rows), paths, byref(result))


def decoder(functions: Functions | None) -> Decoder | None:
    """A decoder for the compiled loop, where it knows that kind."""
    if functions is None or functions.kind not in DECODERS:
        return None
    return Decoder(DECODERS.index(functions.kind), *functions[1:])


def component(dtype: np.dtype[Any]) -> int:
    """Bytes of the scalars of a type that digests have to swap; 0 where there is nothing to swap."""
    if dtype == dtype.newbyteorder("<"):
        return 0
    if dtype.kind == "c":
        return dtype.itemsize // 2
    return 4 if dtype.kind == "U" else dtype.itemsize
