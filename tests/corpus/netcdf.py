"""Hostile NetCDF files: classic headers that lie, and HDF5 files whose dimensions are not there."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from corpus.cases import SAMPLE, case, write

EITHER = "FormatError|CorruptError"
BODY = SAMPLE.astype(">i4").tobytes()
DIMENSIONS, VARIABLES, ATTRIBUTES = 10, 11, 12
INT = 4


def text(name: bytes) -> bytes:
    """A name with its length, padded."""
    return struct.pack(">i", len(name)) + name + bytes(-len(name) % 4)


def classic(
    *,
    version: int = 1,
    records: int = 0,
    dimensions: tuple[tuple[bytes, int], ...] = ((b"y", 8), (b"x", 8)),
    ids: tuple[int, ...] = (0, 1),
    kind: int = INT,
    size: int = 256,
    begin: int | None = None,
    lists: tuple[int, int, int] = (2, 0, 1),
    tags: tuple[int, int, int] = (DIMENSIONS, 0, VARIABLES),
    name: bytes = b"v",
    body: bytes = BODY,
) -> bytes:
    """A classic file with one variable."""
    head = b"CDF" + bytes([version]) + struct.pack(">i", records)
    head += struct.pack(">ii", tags[0], lists[0]) + b"".join(
        text(n) + struct.pack(">i", length) for n, length in dimensions
    )
    head += struct.pack(">ii", tags[1], lists[1])
    head += struct.pack(">ii", tags[2], lists[2]) + text(name) + struct.pack(f">i{len(ids)}i", len(ids), *ids)
    head += struct.pack(">iiii", 0, 0, kind, size)
    at = len(head) + (4 if version == 1 else 8)
    return head + struct.pack(">i" if version == 1 else ">q", at if begin is None else begin) + body


def add(name: str, data: bytes, error: str = EITHER, run: str | None = None, **more: Any) -> None:
    """Add a case of one classic file."""

    @case(f"netcdf3/{name}", error, run, **more)
    def _(folder: Path) -> str:
        write(folder / "x.nc", data)
        return "x.nc"


add("whole", classic(), "")
add("whole-64-bit", classic(version=2), "")
add("version-9", classic(version=9))
add("dimension-negative", classic(dimensions=((b"y", -8), (b"x", 8))), quick=True)
add("dimension-missing", classic(ids=(0, 7)), quick=True)
add("dimension-id-negative", classic(ids=(0, -1)), quick=True)
add("dimensions-twice", classic(dimensions=((b"y", 8), (b"y", 8))), f"|{EITHER}")
add("dimensions-billion", classic(lists=(1 << 30, 0, 1)), quick=True)
add("dimensions-count-negative", classic(lists=(-2, 0, 1)))
add("dimensions-two-unlimited", classic(dimensions=((b"y", 0), (b"x", 0))), f"|{EITHER}")
add("axes-billion", classic(ids=(0,) * 1000), f"|{EITHER}")
add("unlimited-second", classic(dimensions=((b"y", 8), (b"x", 0)), records=8), f"|{EITHER}")
add("unlimited-of-0", classic(dimensions=((b"y", 0), (b"x", 8)), records=0, size=32, body=b""), "", quick=True)
add(
    "records-billion",
    classic(dimensions=((b"y", 0), (b"x", 8)), size=32, records=(1 << 31) - 1),
    f"|{EITHER}",
    EITHER,
    quick=True,
)
add("records-streaming", classic(dimensions=((b"y", 0), (b"x", 8)), size=32, records=-1), f"|{EITHER}")
add("type-unknown", classic(kind=99), quick=True)
add("type-0", classic(kind=0))
add("size-lies", classic(size=4), f"|{EITHER}")
add("begin-beyond", classic(begin=1 << 30), f"|{EITHER}", EITHER)
add("begin-negative", classic(begin=-8))
add("begin-in-header", classic(begin=4), f"|{EITHER}")
add("begin-beyond-64-bit", classic(version=2, begin=(1 << 63) - 1), f"|{EITHER}", EITHER)
add("tag-of-dimensions", classic(tags=(77, 0, VARIABLES)))
add("tag-of-variables", classic(tags=(DIMENSIONS, 0, 77)))
add("variables-billion", classic(lists=(2, 0, 1 << 30)), quick=True)
add("no-variables", classic(lists=(2, 0, 0), tags=(DIMENSIONS, 0, 0)), "", EITHER, says="no variable")
add("attributes-billion", classic(lists=(2, 1 << 30, 1), tags=(DIMENSIONS, ATTRIBUTES, VARIABLES)))
add("name-of-slashes", classic(name=b"../../x"), f"|{EITHER}")
add("name-empty", classic(name=b""), f"|{EITHER}")
add("name-not-utf8", classic(name=b"\xff\xfe"), f"|{EITHER}")
add("name-with-null", classic(name=b"a\0b"), f"|{EITHER}")
add("body-cut", classic(body=BODY[:-4]), f"|{EITHER}", EITHER, quick=True)
add("header-cut", classic()[:40])
add(
    "huge",
    classic(dimensions=((b"y", (1 << 31) - 1), (b"x", (1 << 31) - 1))),
    f"|{EITHER}",
    f"{EITHER}|InfeasibleError",
)


# ---------------------------------------------------------------- NetCDF-4
def add4(
    name: str, error: str = EITHER, run: str | None = None, **more: Any
) -> Callable[[Callable[[Any], None]], None]:
    """Add a case of one NetCDF-4 file, which a function changes."""

    def decorate(change: Callable[[Any], None]) -> None:
        @case(f"netcdf/{name}", error, run, **more)
        def _(folder: Path) -> str:
            with h5py.File(folder / "x.nc", "w") as file:
                for number, (axis, length) in enumerate((("y", 8), ("x", 8))):
                    scale = file.create_dataset(axis, data=np.arange(length))
                    scale.make_scale(axis)
                    scale.attrs["_Netcdf4Dimid"] = np.int32(number)
                values = file.create_dataset("v", data=SAMPLE, chunks=(4, 4), compression="gzip", maxshape=(None, 8))
                for axis in (0, 1):
                    values.dims[axis].attach_scale(file["yx"[axis]])
                change(file)
            return "x.nc::v"

    return decorate


@add4("whole", "")
def _(file: Any) -> None:
    pass


@add4("dimension-removed", says="not in the file", quick=True)
def _(file: Any) -> None:
    del file["x"]


@add4("dimension-list-of-nothing", says="not in the file", quick=True)
def _(file: Any) -> None:
    del file["v"].attrs["DIMENSION_LIST"]
    file["v"].attrs.create("DIMENSION_LIST", [h5py.Reference()] * 2, dtype=h5py.ref_dtype)


@add4("dimension-list-too-short", says="not in the file", quick=True)
def _(file: Any) -> None:
    del file["v"].attrs["DIMENSION_LIST"]
    file["v"].attrs["DIMENSION_LIST"] = np.arange(1)


@add4("dimension-to-itself", f"|{EITHER}", quick=True)
def _(file: Any) -> None:
    del file["v"].attrs["DIMENSION_LIST"]
    lists = np.empty(2, object)
    lists[:] = [np.array([file["v"].ref], h5py.ref_dtype)] * 2
    file["v"].attrs.create("DIMENSION_LIST", lists, dtype=h5py.vlen_dtype(h5py.ref_dtype))


@add4("dimension-id-negative", f"|{EITHER}")
def _(file: Any) -> None:
    file["x"].attrs["_Netcdf4Dimid"] = np.int32(-5)


@add4("dimension-id-text", f"|{EITHER}")
def _(file: Any) -> None:
    file["x"].attrs["_Netcdf4Dimid"] = "x"


@add4("coordinates-beyond", f"|{EITHER}", quick=True)
def _(file: Any) -> None:
    file["v"].attrs["_Netcdf4Coordinates"] = np.int32([0, 99])


@add4("dimension-of-other-length", says="damaged", quick=True)
def _(file: Any) -> None:
    file.create_dataset("short", data=np.arange(3)).make_scale("short")
    del file["v"].attrs["DIMENSION_LIST"]
    file["v"].dims[0].attach_scale(file["short"])
    file["v"].dims[1].attach_scale(file["short"])


@add4("unlimited-of-0", "", quick=True)
def _(file: Any) -> None:
    del file["v"], file["y"]
    scale = file.create_dataset("y", (0,), "i8", chunks=(4,), maxshape=(None,))
    scale.make_scale("y")
    values = file.create_dataset("v", (0, 8), "i4", chunks=(4, 4), maxshape=(None, 8))
    values.dims[0].attach_scale(scale)
    values.dims[1].attach_scale(file["x"])


@add4("unlimited-and-short", says="the rest is fill")
def _(file: Any) -> None:
    file["v"].resize((0, 8))


@add4("fill-value-of-text", f"|{EITHER}", quick=True)
def _(file: Any) -> None:
    file["v"].attrs["_FillValue"] = "much"


@add4("fill-value-of-many", f"|{EITHER}")
def _(file: Any) -> None:
    file["v"].attrs["_FillValue"] = np.arange(1000)


@add4("fill-value-of-compounds", f"|{EITHER}")
def _(file: Any) -> None:
    file["v"].attrs["_FillValue"] = np.zeros(1, [("a", "i4")])


@add4("class-of-numbers", f"|{EITHER}")
def _(file: Any) -> None:
    file["x"].attrs["CLASS"] = np.arange(5)


@add4("name-of-megabytes", f"|{EITHER}")
def _(file: Any) -> None:
    file["x"].attrs["NAME"] = "This is a netCDF dimension but not a netCDF variable." + "9" * 60_000
