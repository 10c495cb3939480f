"""numpy.ndarray and numpy.memmap: a memmap of a whole .npy file is reopened by path."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import StorageError, UsageError
from reblock.model.schema import Schema
from reblock.storage.location import Location, absolute
from reblock.storage.media.local import LOCAL
from reblock.storage.npy_header import read_header
from reblock.storage.objects.found import FoundObject

Array = npt.NDArray[Any]

#: The memory maps of this process, with the inode of each file.
_MAPS = "/proc/self/maps"


def find(array: Array) -> FoundObject:
    """Describe an array; UsageError for a masked one."""
    if isinstance(array, np.ma.MaskedArray):
        raise UsageError("a masked array cannot be stored: fill it first, with array.filled()")
    kind = type(array)
    name = f"<{kind.__module__.partition('.')[0]}.{kind.__name__} {'×'.join(map(str, array.shape)) or 'without axes'}>"
    where, why = None, "its elements are in memory"
    backing: tuple[str, ...] = ()
    release: Callable[[], None] = _nothing
    strides: tuple[int, ...] = ()
    # The values of a subclass, such as a matrix, are sliced as those of an array.
    plain: Any = np.asarray(array)
    if isinstance(array, np.memmap) and array.filename is not None:
        path = absolute(str(array.filename))
        backing, strides, release = (path,), tuple(map(abs, array.strides)), _releasing(array)
        why = _why_not_by_path(plain, array.mode, path)
        where = None if why else Location(path)
        if where is not None and array.mode != "r":
            array.flush()
    return FoundObject(
        name,
        "numpy",
        "npy",
        # The ellipsis keeps an array without axes an array.
        lambda region: plain[(*region, ...)],
        lambda: Schema(plain.shape, plain.dtype, tuple(max(n, 1) for n in plain.shape), order=_order(plain)),
        plain.shape,
        plain.dtype,
        False,
        where,
        why,
        backing,
        strides,
        release,
    )


def _order(array: Array) -> tuple[int, ...]:
    """The axes as they lie in memory, outermost first."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


def _why_not_by_path(array: Array, mode: str, path: str) -> str:
    """Why a mapped file cannot be opened by its path instead; empty if it can."""
    if mode == "c":
        return "it is mapped copy-on-write, and may differ from its file"
    if "::" in path:
        return "its name contains '::'"
    try:
        header = read_header(path)
        inode = LOCAL.status(path).identity
    except (StorageError, FileNotFoundError) as error:
        return f"it does not map a .npy file: {error}"
    straight = array.flags.f_contiguous if header.fortran else array.flags.c_contiguous
    same = straight and (array.shape, array.dtype) == (header.shape, header.dtype)
    if not same or _mapped(array.__array_interface__["data"][0]) != (inode, header.offset):
        return f"it is not the whole array that {path} holds now"
    return ""


def _mapped(address: int) -> tuple[int, int] | None:
    """Inode of the file that is mapped at an address, and the offset in it; None if that is unknown."""
    with suppress(OSError), open(_MAPS, encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, _, offset, _, inode = line.split(maxsplit=5)[:5]
            start, stop = (int(end, 16) for end in span.split("-"))
            if start <= address < stop:
                return int(inode), int(offset, 16) + address - start
    return None


def _releasing(array: Any) -> Callable[[], None]:
    """Drop the pages of a mapped file from the memory of this process; they stay in the page cache."""
    mapped = getattr(array, "_mmap", None)
    # Private pages of a copy-on-write map would be lost.
    if array.mode == "c" or mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
        return _nothing
    return partial(mapped.madvise, mmap.MADV_DONTNEED)


def _nothing() -> None:
    """Nothing to release."""
