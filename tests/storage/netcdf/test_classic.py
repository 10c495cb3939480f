"""Headers of NetCDF-3 files, against the NetCDF library, and hostile ones."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

from reblock.errors import CorruptError, FormatError, StorageError
from reblock.storage.netcdf.classic import ClassicHeader, parse_classic, read_classic

KINDS = {1: "NETCDF3_CLASSIC", 2: "NETCDF3_64BIT_OFFSET", 5: "NETCDF3_64BIT_DATA"}


def parse(data: bytes) -> ClassicHeader:
    return parse_classic(lambda start, stop: data[start:stop], len(data), where="x.nc")


def elements(path: Path, header: ClassicHeader, name: str) -> np.ndarray[Any, Any]:
    """The elements of a variable by the places that the header gives."""
    variable, data = header.variables[name], path.read_bytes()
    shape, part = header.shape(variable), header.part_bytes(variable)
    if not header.is_record(variable):
        return np.frombuffer(data, variable.dtype, part // variable.dtype.itemsize, variable.begin).reshape(shape)
    starts = [variable.begin + record * header.record_bytes for record in range(header.records)]
    return np.frombuffer(b"".join(data[one : one + part] for one in starts), variable.dtype).reshape(shape)


def make(path: Path, version: int, *, records: int = 3, lone: bool = False) -> None:
    """A file with fixed variables and record variables, whose records need padding."""
    with netCDF4.Dataset(path, "w", format=KINDS[version]) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createDimension("y", 5)
        file.title = "a file"
        file.setncattr("numbers", np.array([1.5, np.nan], "f4"))
        file.setncattr("empty", "")
        rng = np.random.default_rng(version)
        for name, kind, axes in (
            ("scalar", "f8", ()),
            ("bytes", "i1", ("x",)),
            ("letters", "S1", ("x", "y")),
            ("first", "i2", ("time", "x")),
            *(() if lone else (("second", "f4", ("time", "y", "x")), ("third", "i1", ("time",)))),
            *((("wide", "u8", ("y",)), ("time", "i8", ("time",))) if version == 5 and not lone else ()),
        ):
            one = file.createVariable(name, kind, axes, fill_value=None if kind == "S1" else 7)
            one.set_auto_mask(False)
            one.units = "K"
            shape = tuple(records if axis == "time" else len(file.dimensions[axis]) for axis in axes)
            values = rng.integers(0, 100, shape)
            one[...] = values.astype("u1").astype("S1") if kind == "S1" else values.astype(kind)


@pytest.mark.parametrize("version", KINDS)
@pytest.mark.parametrize("records", [0, 1, 3])
@pytest.mark.parametrize("lone", [False, True], ids=["several record variables", "one record variable"])
def test_headers_are_what_the_library_reads(tmp_path: Path, version: int, records: int, lone: bool) -> None:
    path = tmp_path / "x.nc"
    make(path, version, records=records, lone=lone)
    header = read_classic(str(path))
    assert (header.version, header.records, header.record_axis) == (version, records, "time")
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        assert header.dimensions == {name: len(one) for name, one in file.dimensions.items()}
        assert header.attributes["title"] == b"a file"
        assert header.attributes["numbers"].tobytes() == file.numbers.tobytes()
        assert header.attributes["empty"] == b"\0"
        assert list(header.variables) == list(file.variables)
        for name, variable in file.variables.items():
            found = header.variables[name]
            assert found.axes == variable.dimensions
            assert found.attributes["units"] == b"K"
            assert elements(path, header, name).tolist() == variable[...].tolist()
    assert header.end_of_elements <= path.stat().st_size


def test_the_number_of_records_of_a_stream_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.nc"
    make(path, 1)
    data = path.read_bytes()
    streamed = data[:4] + b"\xff" * 4 + data[8:]
    assert parse(streamed).records == 3
    assert parse(streamed).notes == ()
    part = parse(streamed[:-4])
    assert part.records == 2
    assert "bytes after the last whole record" in part.notes[0]


# ---------------------------------------------------------------- hostile headers
def words(*values: int | bytes) -> bytes:
    return b"".join(value if isinstance(value, bytes) else struct.pack(">i", value) for value in values)


def name(text: bytes) -> bytes:
    return words(len(text), text + bytes(-len(text) % 4))


def file(*, records: int = 0, dims: bytes = b"", attributes: bytes = b"", variables: bytes = b"") -> bytes:
    none = bytes(8)
    return words(b"CDF\1", records, dims or none, attributes or none, variables or none)


def variable(
    text: bytes = b"v", *, dims: tuple[int, ...] = (0,), kind: int = 4, size: int = 12, begin: int = 100
) -> bytes:
    return words(11, 1, name(text), len(dims), *dims, bytes(8), kind, size, begin)


X = words(10, 1, name(b"x"), 3)
TIME = words(10, 2, name(b"time"), 0, name(b"x"), 3)
GOOD = file(dims=X, variables=variable()).ljust(112, b"\0")


def test_the_smallest_file_is_read() -> None:
    assert parse(GOOD).end_of_elements == 112


BAD = {
    "not there": (file(dims=X, variables=variable(dims=(7,))), "x.nc::v: dimension 7 is not there; the file has 1"),
    "negative dimension number": (file(dims=X, variables=variable(dims=(-1,))), "a dimension is negative: -1"),
    "lying size": (GOOD.replace(words(12, 100), words(16, 100)), "states 16 bytes, the dimensions give 12"),
    "begins in the header": (GOOD.replace(words(12, 100), words(12, 8)), "begin at 8, inside the header"),
    "negative length": (file(dims=words(10, 1, name(b"x"), -3)), "the length of a dimension is negative: -3"),
    "many attributes": (file(attributes=words(12, 2_000_000_000)), "attributes takes 24,000,000,000 bytes"),
    "negative count": (file(attributes=words(12, -1)), "the number of attributes is negative: -1"),
    "long attribute": (file(attributes=words(12, 1, name(b"a"), 6, 1 << 30)), "'a' takes 8,589,934,592 bytes"),
    "unknown type": (file(attributes=words(12, 1, name(b"a"), 99, 1, 0)), "type 99 is not one of CDF-1"),
    "type of CDF-5": (file(attributes=words(12, 1, name(b"a"), 10, 1, 0, 0)), "type 10 is not one of CDF-1"),
    "slash": (file(dims=X, variables=variable(b"a/b")), "a variable is called 'a/b'"),
    "path": (file(dims=words(10, 1, name(b".."), 3)), "a dimension is called '..'"),
    "no name": (file(dims=words(10, 1, 0, 3)), "has 0 bytes, from 1 to 256"),
    "not Unicode": (file(dims=words(10, 1, name(b"\xff"), 3)), "is not UTF-8"),
    "NUL": (file(dims=words(10, 1, name(b"a\0b"), 3)), "contains NUL"),
    "wrong tag": (file(dims=words(11, 1)), "tag 11 where a list of dimensions has 10"),
    "two of one name": (file(dims=words(10, 2, name(b"x"), 3, name(b"x"), 4)), "two dimensions have the same name"),
    "two record dimensions": (file(dims=words(10, 2, name(b"x"), 0, name(b"y"), 0)), "2 record dimensions"),
    "record dimension inside": (file(dims=TIME, variables=variable(dims=(1, 0))), "is not its first axis"),
    "many axes": (file(dims=X, variables=variable(dims=(0,) * 40)), "40 axes are more than the 32"),
    "overflow": (file(dims=words(10, 1, name(b"x"), 2**31 - 1), variables=variable(dims=(0,) * 4)), "the limit is 2"),
    "other magic": (b"CDF\3" + bytes(40), "not a NetCDF-3 file"),
    "empty": (b"", "ends inside its header"),
    "only magic": (b"CDF\1", "ends inside its header"),
}  # fmt: skip


@pytest.mark.parametrize("why", BAD)
def test_hostile_headers_are_refused_in_words(why: str) -> None:
    data, message = BAD[why]
    with pytest.raises(FormatError, match=message) as caught:
        parse(data)
    assert "x.nc" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_elements_are_an_error() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(StorageError):
            parse(GOOD[:size])
    with pytest.raises(CorruptError, match="end at byte 112, the file has 111: it is truncated"):
        parse(GOOD[:-1])


def test_missing_records_are_an_error() -> None:
    data = file(records=5, dims=TIME, variables=variable(dims=(0, 1)))
    with pytest.raises(CorruptError, match="its elements end at byte 160, the file has 159"):
        parse(data.ljust(159, b"\0"))
    assert parse(data.ljust(160, b"\0")).records == 5
    # Any number of records of nothing, but not of elements.
    with pytest.raises(FormatError, match=r"bytes, the limit is|end at byte"):
        parse(b"CDF\5" + b"\x7f" + b"\xff" * 7 + wide_record())


def wide_record() -> bytes:
    def long(value: int) -> bytes:
        return struct.pack(">q", value)

    def text(value: bytes) -> bytes:
        return long(len(value)) + value + bytes(-len(value) % 4)

    return (
        words(10) + long(1) + text(b"t") + long(0) + words(0) + long(0)
        + words(11) + long(1) + text(b"v") + long(1) + long(0) + words(0) + long(0) + words(6) + long(8) + long(200)
    )  # fmt: skip


def test_overlapping_variables_are_refused() -> None:
    two = words(11, 2) + variable(begin=120)[8:] + variable(b"w", begin=128)[8:]
    with pytest.raises(FormatError, match=r"the elements of 'v', 12 bytes at 120, overlap those of 'w'"):
        parse(file(dims=X, variables=two).ljust(200, b"\0"))
