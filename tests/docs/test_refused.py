"""docs/reference/refused.md is what the program refuses: each row is tried, and each attempt is a row."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import reblock

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "refused.md"
ROW = re.compile(r"^\| (?!what \|)(?!---)(.+?) \| `(.+?)` \| .+ \|$", re.MULTILINE)
#: What the program says, by what is refused.
TABLE = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))


def hdf5(make: Callable[[h5py.File], Any], name: str = "s.h5::d") -> None:
    with h5py.File("s.h5", "w") as file:
        make(file)
    reblock.open(name)


def in_hdf5(dtype: Any) -> None:
    hdf5(lambda file: file.create_dataset("d", (2,), dtype))


def filtered(file: h5py.File) -> None:
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk((2,))
    dcpl.set_filter(305, h5py.h5z.FLAG_OPTIONAL)
    h5py.h5d.create(file.id, b"d", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((4,)), dcpl)


def timed(file: h5py.File) -> None:
    h5py.h5d.create(file.id, b"d", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((4,)))


def virtual(source: str = ".", name: str = "x", *, odd: bool = False, endless: bool = False) -> None:
    """A virtual dataset of a dataset in the same file."""
    limit = h5py.h5s.UNLIMITED if endless else 4
    here, there = (h5py.h5s.create_simple((4,), (limit,)) for _ in range(2))
    for space in (here, there):
        space.select_hyperslab((0,), (limit if endless else 1,), (1,), (1,))
        if odd:
            space.select_hyperslab((2,), (2,), op=h5py.h5s.SELECT_OR)
    if "%" in name:
        there = h5py.h5s.create_simple((1,))
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_virtual(here, source.encode(), name.encode(), there)

    def make(file: h5py.File) -> None:
        file["x"] = np.arange(4, dtype="i4")
        space = h5py.h5s.create_simple((4,), (limit,))
        h5py.h5d.create(file.id, b"d", h5py.h5t.NATIVE_INT32, space, dcpl)

    hdf5(make)


def external(count: int, folder: str = "") -> None:
    for number in range(count):
        Path(f"{folder}part{number}").write_bytes(bytes(8))
    files = [(f"{folder}part{number}", 0, 8) for number in range(count)]
    hdf5(lambda file: file.create_dataset("d", (2 * count,), "i4", external=files))


def outside() -> None:
    Path("inside").mkdir()
    with h5py.File("other.h5", "w") as file:
        file["d"] = np.arange(4)
    with h5py.File("inside/s.h5", "w") as file:
        file["d"] = h5py.ExternalLink("../other.h5", "d")
    reblock.open("inside/s.h5::d")


def npy(array: Any) -> None:
    np.save("s.npy", array, allow_pickle=True)
    reblock.open("s.npy")


def of_zarr(version: int, *, dtype: Any = "i4", edited: str = "", **changes: Any) -> None:
    """An array of zarr-python, its metadata edited."""
    changes |= {"dtype": edited} if edited else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array("s.zarr", shape=(4,), chunks=(2,), dtype=dtype, zarr_format=version)
    path = Path("s.zarr", "zarr.json" if version == 3 else ".zarray")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    reblock.open("s.zarr")


def target(where: str, of: Any = "i4", **options: Any) -> None:
    np.save("s.npy", np.zeros((4, 6), of))
    reblock.plan("s.npy", where, **options)


def large(where: str, codec: str) -> None:
    """Planning alone, on an array that is all hole."""
    with open("s.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 16, 1 << 16)}
        )
        file.truncate(file.tell() + (4 << 32))
    reblock.plan("s.npy", where, chunks=(1 << 15, 1 << 15), codec=codec, memory="64GiB")


def inner(where: str = "t/::inner") -> None:
    np.save("s.npy", np.zeros((4, 6)))
    reblock.repartition("s.npy", where)


ATTEMPTS: dict[str, Callable[[], Any]] = {
    "structured types in HDF5 and npy": lambda: in_hdf5([("a", "i4"), ("b", "f4")]),
    "text and sequences of variable length in HDF5": lambda: in_hdf5(h5py.string_dtype()),
    "references in HDF5": lambda: in_hdf5(h5py.ref_dtype),
    "HDF5 types that numpy lacks, such as times": lambda: hdf5(timed),
    "an HDF5 dataset without elements (null)": lambda: hdf5(lambda file: file.__setitem__("d", h5py.Empty("f4"))),
    "an HDF5 filter that is not on the list": lambda: hdf5(filtered),
    "elements of an HDF5 dataset in several external files": lambda: external(2),
    "an HDF5 dataset in another file that is not allowed": outside,
    "a virtual dataset of HDF5 with a missing source": lambda: virtual(name="y"),
    "a virtual dataset of HDF5 with an unlimited selection": lambda: virtual(endless=True),
    "a virtual dataset of HDF5 with sources by number": lambda: virtual(name="x%b", endless=True),
    "a virtual dataset of HDF5 of single points or irregular parts": lambda: virtual(odd=True),
    "a virtual dataset of HDF5 that contains itself": lambda: virtual(name="d"),
    "a group or file with several arrays": lambda: hdf5(
        lambda file: [file.create_dataset(name, data=[1]) for name in "de"], "s.h5"
    ),
    "objects in npy": lambda: npy(np.array([None, 1], object)),
    "text of variable length in Zarr v2": lambda: of_zarr(2, filters=[{"id": "vlen-utf8"}], dtype="i4"),
    "pickles, JSON and MessagePack in Zarr v2": lambda: of_zarr(2, filters=[{"id": "pickle"}]),
    "structured types in Zarr v2": lambda: of_zarr(2, dtype=np.dtype([("a", "i4")])),
    "long double in Zarr v2": lambda: of_zarr(2, edited="<f16"),
    "text of variable length in Zarr v3": lambda: of_zarr(3, data_type="string"),
    "other types of Zarr v3, such as bfloat16": lambda: of_zarr(3, data_type="bfloat16"),
    "codecs that are not on the list": lambda: of_zarr(2, compressor={"id": "pcodec"}),
    "Blosc with Snappy, if numcodecs lacks it": lambda: of_zarr(2, compressor={"id": "blosc", "cname": "snappy"}),
    "chunk grids of Zarr v3 other than regular": lambda: of_zarr(3, chunk_grid={"name": "rectilinear"}),
    "chunk key encodings of Zarr v3 other than `default` and `v2`": lambda: of_zarr(
        3, chunk_key_encoding={"name": "fanout"}
    ),
    "storage transformers of Zarr v3": lambda: of_zarr(3, storage_transformers=[{"name": "x"}]),
    "extensions of Zarr v3 that must be understood": lambda: of_zarr(3, mine={"must_understand": True}),
    "elements of more than 1 MiB": lambda: of_zarr(
        3, data_type={"name": "raw_bytes", "configuration": {"length_bytes": 2**21}}
    ),
    "more than 32 axes": lambda: of_zarr(3, shape=[1] * 33),
    "text of 4-byte characters (`U`) in HDF5": lambda: target("t.h5", "U4"),
    "dates in units other than D, h, m, s, ms, us, ns in HDF5": lambda: target("t.h5", "M8[Y]"),
    "another type for dates in HDF5": lambda: target("t.h5", "M8[s]", dtype="M8[ms]"),
    "long double in Zarr": lambda: target("t.zarr", "g"),
    "dates without a unit in Zarr": lambda: target("t.zarr", "M8"),
    "opaque bytes (`V`) in shards": lambda: target("t.zarr", "V4", chunks=(2, 3), shards=(4, 6)),
    "irregular chunks in Zarr": lambda: target("t.zarr", chunks=((1, 2, 1), 6)),
    "irregular chunks in HDF5": lambda: target("t.h5", chunks=((1, 2, 1), 6)),
    "shards in Zarr v2": lambda: target("t.zarr", to_format="zarr2", chunks=(2, 3), shards=(4, 6)),
    "shards in HDF5": lambda: target("t.h5", chunks=(2, 3), shards=(4, 6)),
    "shards and codecs in block folders": lambda: target("t/", codec="gzip:1"),
    "codecs that HDF5 lacks": lambda: target("t.h5", codec="lz4:1"),
    "codecs that Zarr lacks": lambda: target("t.zarr", codec="lzf"),
    "chunks of HDF5 of 4 GiB and more": lambda: large("t.h5", "gzip:1"),
    "chunks for Blosc of 2 GiB and more": lambda: large("t.zarr", "blosc:zstd:3:shuffle"),
    "checksums in npy and block folders": lambda: target("t.npy", checksum=True),
    "an inner path in a block folder or npy file": inner,
    "URLs of other kinds, such as `ftp://`": lambda: target("ftp://host/t.zarr"),
}


def test_the_table_lists_what_is_tried_and_nothing_else() -> None:
    assert sorted(TABLE) == sorted(ATTEMPTS)


@pytest.mark.parametrize("what", ATTEMPTS)
def test_it_is_refused_in_the_words_of_the_table(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(reblock.ReblockError) as caught:
        ATTEMPTS[what]()
    assert TABLE[what] in str(caught.value)
    assert not list(tmp_path.glob("t*")), "something was written"


OF_NPY: dict[str, Callable[[], Any]] = {
    "structured types": lambda: npy(np.zeros(2, [("a", "i4")])),
    "an inner path": lambda: inner("t.npy::inner"),
    "shards and codecs": lambda: target("t/", chunks=(2, 3), shards=(4, 6)),
}


@pytest.mark.parametrize("what", OF_NPY)
def test_rows_of_two_cases_hold_for_the_other(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (words,) = (words for row, words in TABLE.items() if row.startswith(what) and ("npy" in row or "block" in row))
    with pytest.raises(reblock.ReblockError, match=re.escape(words)):
        OF_NPY[what]()
