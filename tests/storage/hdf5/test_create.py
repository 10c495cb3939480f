"""New HDF5 datasets are what was wanted, asked of h5py: fill values of every type above all."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from reblock.errors import ReblockError, UsageError
from reblock.model.codec import Codec
from reblock.model.schema import Schema
from reblock.storage.hdf5.format import FORMAT
from reblock.testing.arrays import DTYPES, same_bits
from reblock.testing.reference_io import read_array

#: Types and fill values: every kind of element, in both byte orders, with bits that a careless call changes.
FILLS: list[tuple[str, bytes]] = [
    *((dtype, bytes(range(1, np.dtype(dtype).itemsize + 1))) for dtype in DTYPES if dtype != "|b1"),
    ("|b1", b"\1"),
    ("|b1", b"\0"),
    ("<f4", b"\5\0\xc0\x7f"),
    ("<f8", b"\0\0\0\0\0\0\0\x80"),
    *((f"|S{size}", text) for size in (1, 5, 300, 8192) for text in (b"", b"a", b"\xff\xfe"[:size])),
    ("|S70000", b""),
    ("|S5", b"abcde"),
    ("|S8192", b"x" * 8192),
    *((f"|V{size}", bytes(range(256)) * 32) for size in (1, 7, 8192)),
]


def scalar(dtype: str, data: bytes) -> Any:
    size = np.dtype(dtype).itemsize
    return np.frombuffer(data[:size].ljust(size, b"\0"), dtype)[0]


@pytest.mark.parametrize("codec", ["none", "gzip:1", "lzf"])
@pytest.mark.parametrize(("dtype", "data"), FILLS, ids=lambda value: str(value)[:12])
def test_the_fill_value_is_the_one_that_was_wanted(tmp_path: Path, dtype: str, data: bytes, codec: str) -> None:
    fill = scalar(dtype, data)
    wanted = Schema((4, 3), np.dtype(dtype), (2, 2), codec=Codec.parse(codec), fill_value=fill)
    schema = FORMAT.adapt(wanted, {"fill_value", "codec"})
    path = str(tmp_path / "x.h5")
    FORMAT.create(path, "x", schema).commit()
    with h5py.File(path) as file:
        found = np.zeros((), dtype)
        found[...] = file["x"].fillvalue
        assert found.tobytes() == np.asarray(fill, dtype).tobytes()
        assert (file["x"].dtype, file["x"].chunks) == (np.dtype(dtype), (2, 2))
        if codec != "none":
            # Chunks that were not written: HDF5 fills them itself.
            assert same_bits(file["x"][...], np.full((4, 3), fill, dtype))
    assert FORMAT.open(path, "x").schema.fill_value.tobytes() == fill.tobytes()


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    """A fill value from elsewhere in memory would differ between processes, and show what was there."""
    script = (
        "import sys, numpy as np\n"
        "from reblock.model.schema import Schema\n"
        "from reblock.storage.hdf5.format import FORMAT\n"
        "for n, (dtype, fill) in enumerate([('S24', b'ab'), ('g', 1), ('G', 2), ('V9', None), ('S8192', b'q')]):\n"
        "    fill = None if fill is None else np.array(fill, dtype)[()]\n"
        "    schema = FORMAT.adapt(Schema((4,), np.dtype(dtype), (4,), fill_value=fill), ())\n"
        "    FORMAT.create(f'{sys.argv[1]}{n}.h5', 'x', schema).commit()\n"
    )
    for place in ("a", "b"):
        subprocess.run([sys.executable, "-c", script, str(tmp_path / place)], check=True)
    # Elements have not been written, so only what HDF5 writes is compared: everything but them.
    for number in range(5):
        one, two = ((tmp_path / f"{place}{number}.h5").read_bytes() for place in "ab")
        assert one == two


def test_long_double_fills_have_no_foreign_bytes(tmp_path: Path) -> None:
    schema = FORMAT.adapt(Schema((4,), np.dtype("g"), (2,), fill_value=np.longdouble("1.1")), ())
    FORMAT.create(str(tmp_path / "x.h5"), "x", schema).commit()
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["x"].fillvalue == np.longdouble("1.1")


@pytest.mark.parametrize("asked", [False, True])
def test_a_fill_with_nul_inside_is_named(tmp_path: Path, asked: bool) -> None:
    wanted = Schema((4,), np.dtype("S5"), (2,), fill_value=np.bytes_(b"a\0b"))
    if asked:
        with pytest.raises(UsageError, match="NUL"):
            FORMAT.adapt(wanted, {"fill_value"})
        return
    schema = FORMAT.adapt(wanted, ())
    assert any("NUL" in note for note in schema.notes)
    FORMAT.create(str(tmp_path / "x.h5"), "x", schema).commit()
    assert FORMAT.open(str(tmp_path / "x.h5"), "x").schema.fill_value == b""


def test_a_fill_that_is_too_long_is_named(tmp_path: Path) -> None:
    wanted = Schema((4,), np.dtype("V70000"), (2,), fill_value=scalar("V70000", b"a"))
    with pytest.raises(UsageError, match="70,000 bytes"):
        FORMAT.adapt(wanted, {"fill_value"})
    schema = FORMAT.adapt(wanted, ())
    assert any("70,000 bytes" in note for note in schema.notes)
    FORMAT.create(str(tmp_path / "x.h5"), "x", schema).commit()


@pytest.mark.parametrize("what", ["fill_value", "chunks", "dtype", "codec"])
def test_what_hdf5_made_is_compared_with_what_was_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A library that makes something else is noticed before the first element is written."""
    from reblock.storage.hdf5 import create as hdf5_create

    wrong = {
        "fill_value": {"fill_value": np.int32(8)},
        "chunks": {"chunks": (4, 1)},
        "dtype": {"dtype": np.dtype("<u4"), "fill_value": np.uint32(7)},
        "codec": {"codec": Codec.parse("gzip:2")},
    }[what]
    make = hdf5_create._make
    monkeypatch.setattr(
        hdf5_create,
        "_make",
        lambda file, name, schema, *more, **options: make(file, name, replace(schema, **wrong), *more, **options),
    )
    schema = Schema((4, 3), np.dtype("<i4"), (2, 2), codec=Codec.parse("gzip:1"), fill_value=np.int32(7))
    with pytest.raises(ReblockError, match="HDF5 made"):
        FORMAT.create(str(tmp_path / "x.h5"), "x", FORMAT.adapt(schema, ()))
    assert list(tmp_path.iterdir()) == []


def test_bytes_come_back_element_by_element(tmp_path: Path) -> None:
    """The whole way, with a chunk that is missing in the source."""
    from reblock import repartition

    with h5py.File(tmp_path / "s.h5", "w") as file:
        data = file.create_dataset("x", (6, 4), "S9000", chunks=(2, 2), fillvalue=b"none", compression="gzip")
        data[0:2, 0:2] = b"y" * 9000
        expected = data[...]
    repartition(f"{tmp_path}/s.h5", f"{tmp_path}/t.h5", chunks=(3, 4))
    with h5py.File(tmp_path / "t.h5") as file:
        assert file["data" if "data" in file else "x"].fillvalue == b"none"
    assert same_bits(read_array(FORMAT.open(f"{tmp_path}/t.h5", "")), expected)
