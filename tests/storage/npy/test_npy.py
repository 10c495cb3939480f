"""npy: real files of numpy, odd headers, truncated and hostile ones."""

from __future__ import annotations

import os
import struct
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy_format

from reblock.errors import CorruptError, DiskError, FormatError, ReblockError, UsageError
from reblock.model.codec import Codec
from reblock.model.schema import Schema
from reblock.storage.npy.format import FORMAT
from reblock.storage.npy_header import MAX_HEADER, write_header
from reblock.testing.arrays import DTYPES, noise, same_bits
from reblock.testing.reference_io import read_array, write_array


def raw(text: str | bytes, version: int = 1, tail: bytes = b"") -> bytes:
    """A .npy file with a header of our own."""
    text = text.encode() if isinstance(text, str) else text
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + tail


def make(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write an array with the engine's means."""
    order = tuple(range(array.ndim))
    schema = FORMAT.adapt(Schema(array.shape, array.dtype, array.shape, order=order), ())
    store = FORMAT.create(str(path), "", schema)
    write_array(store, array)
    store.commit()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (4, 5), (2, 3, 4), (2, 3, 2, 3, 2)], ids=str)
@pytest.mark.parametrize("dtype", [*DTYPES, "S3", "<U2", "<M8[ns]", "|V5"])
def test_files_of_numpy_are_read(tmp_path: Path, order: Any, shape: tuple[int, ...], dtype: str) -> None:
    # Random bits are no text.
    array = np.array(np.zeros(shape, dtype) if dtype == "<U2" else noise(shape, dtype), order=order)
    np.save(tmp_path / "x.npy", array)
    store = FORMAT.open(str(tmp_path / "x.npy"), "")
    assert store.schema.dtype == array.dtype
    assert same_bits(read_array(store), array)
    if array.ndim > 1 and array.size:
        assert store.layout.order == tuple(range(array.ndim))[:: 1 if order == "C" else -1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (4, 5)], ids=str)
def test_numpy_reads_our_files(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    array = noise(shape, dtype)
    make(tmp_path / "x.npy", array)
    assert same_bits(np.load(tmp_path / "x.npy", allow_pickle=False), array)
    assert (tmp_path / "x.npy").read_bytes() == _saved(array)


def _saved(array: np.ndarray[Any, Any]) -> bytes:
    from io import BytesIO

    stream = BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_fortran_order_is_written(tmp_path: Path) -> None:
    array = noise((4, 5, 3), "<i4")
    schema = FORMAT.adapt(Schema(array.shape, array.dtype, (2, 2, 2), order=(2, 1, 0)), {"order"})
    store = FORMAT.create(str(tmp_path / "x.npy"), "", schema)
    write_array(store, array)
    store.commit()
    loaded = np.load(tmp_path / "x.npy")
    assert loaded.flags.f_contiguous
    assert same_bits(loaded, array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version(tmp_path: Path, version: tuple[int, int]) -> None:
    array = noise((4, 5), ">f4")
    with (tmp_path / "x.npy").open("wb") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        npy_format.write_array(stream, array, version)
    assert same_bits(read_array(FORMAT.open(str(tmp_path / "x.npy"), "")), array)


def test_headers_of_python_2(tmp_path: Path) -> None:
    array = np.arange(12, dtype="<i4")
    text = "{'descr': '<i4', 'fortran_order': False, 'shape': (3L, 4L), }\n"
    (tmp_path / "x.npy").write_bytes(raw(text, 1, array.tobytes()))
    assert same_bits(read_array(FORMAT.open(str(tmp_path / "x.npy"), "")), array.reshape(3, 4))


GOOD = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUM",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x01\x00\xff\xff{}",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
        raw(GOOD, 4),
        raw(GOOD.replace("(3,)", "(-3,)")),
        raw(GOOD.replace("(3,)", "(True,)")),
        raw(GOOD.replace("(3,)", "(3.0,)")),
        raw(GOOD.replace("(3,)", "[3]")),
        raw(GOOD.replace("(3,)", f"({10**30},)")),
        raw(GOOD.replace("(3,)", f"({2**62}, 4)")),
        raw(GOOD.replace("(3,)", "(" + "9" * 5000 + ",)")),
        raw(GOOD.replace("(3,)", "(" + "1," * 33 + ")")),
        raw(GOOD.replace("False", "0")),
        raw(GOOD.replace("'<i4'", "'|O'")),
        raw(GOOD.replace("'<i4'", "'nonsense'")),
        raw(GOOD.replace("'<i4'", "[('a', '<i4')]")),
        raw(GOOD.replace("'<i4'", "('<i4', (2,))")),
        raw(GOOD.replace("'<i4'", "'<U0'")),
        raw(GOOD.replace("'<i4'", "'|S0'")),
        raw(GOOD.replace("'<i4'", "__import__('os').system('touch hacked')")),
        raw("{}"),
        raw("[]"),
        raw("[" * 9000),
        raw("(" * 9000 + ")" * 900),
        raw("-" * 9000 + "1"),
        raw("{" * 99 + "}" * 99),
        raw("'" + "x" * 60000),
        raw(b"\xff\xfe\x00" * 10),
        raw("{'descr': 3L, 'shape"),
        raw(" " * (MAX_HEADER + 1) + GOOD, 2),
    ],
    ids=range(33),
)
def test_hostile_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.npy") as error:
        FORMAT.open(str(tmp_path / "x.npy"), "")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    assert os.listdir(tmp_path) == ["x.npy"]


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}, None], object), allow_pickle=True)
    with pytest.raises(FormatError, match="Python objects"):
        FORMAT.open(str(tmp_path / "x.npy"), "")


def test_short_files_are_corrupt(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(100, dtype="<i4"))
    os.truncate(tmp_path / "x.npy", 500)
    with pytest.raises(CorruptError, match=r"x\.npy: 500 bytes, its header promises 528"):
        FORMAT.open(str(tmp_path / "x.npy"), "")


def test_a_promise_of_a_terabyte_in_a_small_file(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(raw(GOOD.replace("(3,)", f"({2**38},)")))
    with pytest.raises(CorruptError):
        FORMAT.open(str(tmp_path / "x.npy"), "")


def test_bytes_after_the_array_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(raw(GOOD, 1, bytes(12) + b"more"))
    assert same_bits(read_array(FORMAT.open(str(tmp_path / "x.npy"), "")), np.zeros(3, "<i4"))


@given(st.data())
def test_any_change_of_a_header_gives_an_array_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(_saved(np.arange(10, dtype="<i4")))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, 127))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "changed.npy"
    path.write_bytes(whole)
    try:
        store = FORMAT.open(str(path), "")
    except ReblockError:
        return
    assert store.layout.nbytes <= len(whole)
    read_array(store)


def test_what_is_lost_is_said_and_nothing_else() -> None:
    plain = Schema((4, 5), np.dtype("<i4"), (2, 2))
    assert FORMAT.adapt(plain, ()).notes == ()
    assert FORMAT.adapt(replace(plain, chunks=(4, 5)), {"chunks"}).notes == ()
    (note,) = FORMAT.adapt(plain, {"chunks"}).notes
    assert note == "chunks 2,2 are ignored: npy is one array without chunks"
    rich = Schema(
        (4, 5, 6),
        np.dtype("<i4"),
        (2, 2, 2),
        order=(1, 0, 2),
        codec=Codec.parse("zstd"),
        fill_value=np.int32(3),
        attributes={"unit": "K"},
        axes=("z", "y", "x"),
        notes=("said before",),
    )
    adapted = FORMAT.adapt(rich, ())
    said = "\n".join(adapted.notes)
    assert adapted.notes[0] == "said before"
    for word in ("zstd", "fill value 3", "unit", "z, y, x", "[1, 0, 2]"):
        assert word in said
    assert adapted.chunks == (4, 5, 6)
    assert (adapted.order, adapted.attributes, adapted.axes, adapted.fill_value) == ((0, 1, 2), {}, None, None)


@pytest.mark.parametrize("dtype", [[("a", "<i4")], "O"])
def test_types_that_are_not_bytes_are_refused(dtype: Any) -> None:
    with pytest.raises(UsageError):
        FORMAT.adapt(Schema((4,), np.dtype(dtype), (2,)), ())


def test_inner_paths_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    with pytest.raises(UsageError, match="leave out ::data"):
        FORMAT.open(str(tmp_path / "x.npy"), "data")


def test_a_new_file_is_sparse(tmp_path: Path) -> None:
    schema = FORMAT.adapt(Schema((1 << 34,), np.dtype("u1"), (5,)), ())
    FORMAT.create(str(tmp_path / "x.npy"), "", schema)
    found = (tmp_path / "x.npy").stat()
    assert found.st_size == (1 << 34) + 128
    assert found.st_blocks * 512 < 1 << 20


def test_a_file_too_large_for_the_disk_leaves_nothing(tmp_path: Path) -> None:
    schema = FORMAT.adapt(Schema((1 << 62,), np.dtype("u1"), (5,)), ())
    with pytest.raises(DiskError, match=r"x\.npy"):
        FORMAT.create(str(tmp_path / "x.npy"), "", schema)
    assert os.listdir(tmp_path) == []


def test_a_file_cut_while_it_was_written_is_not_committed(tmp_path: Path) -> None:
    schema = FORMAT.adapt(Schema((100,), np.dtype("u1"), (5,)), ())
    store = FORMAT.create(str(tmp_path / "x.npy"), "", schema)
    os.truncate(tmp_path / "x.npy", 150)
    with pytest.raises(CorruptError):
        store.commit()


@given(
    st.lists(st.integers(0, 10**6), max_size=6).map(tuple), st.sampled_from(DTYPES), st.booleans(), st.integers(0, 5)
)
def test_headers_can_be_made_longer(shape: tuple[int, ...], dtype: str, fortran: bool, more: int) -> None:
    from io import BytesIO

    short = write_header(shape, np.dtype(dtype), fortran=fortran)
    header = write_header(shape, np.dtype(dtype), fortran=fortran, length=len(short) + 64 * more)
    assert len(header) == len(short) + 64 * more
    stream = BytesIO(header)
    assert npy_format.read_magic(stream) == (1, 0)
    assert npy_format.read_array_header_1_0(stream) == (shape, fortran, np.dtype(dtype))
    assert stream.tell() == len(header)
