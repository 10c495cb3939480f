"""HDF5 with h5py and the tools of HDF5 itself as judges, and with files that mean harm."""

from __future__ import annotations

import ctypes
import os
import pickle
import shutil
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import (
    CorruptError,
    DiskError,
    ExternalError,
    FormatError,
    ReblockError,
    TargetExistsError,
    UsageError,
)
from reblock.geometry import Box
from reblock.model.codec import Codec
from reblock.model.schema import Schema
from reblock.model.store import Extent, Store, TransferMode
from reblock.storage.hdf5.format import FORMAT
from reblock.storage.hdf5.sandbox.reader import Reader
from reblock.testing.arrays import DTYPES, Array, noise, same_bits
from reblock.testing.contract import FormatContract
from reblock.testing.reference_io import read_array, read_extent, write_array

NAMES = {"gzip": 1, "shuffle": 2, "fletcher32": 3, "szip": 4, "nbit": 5, "scaleoffset": 6, "lzf": 32000}
FILTERS = (
    "none",
    "gzip",
    "shuffle",
    "shuffle+gzip",
    "fletcher32",
    "shuffle+gzip+fletcher32",
    "fletcher32+shuffle+gzip",
)
LIBRARY = ("lzf", "shuffle+lzf", "shuffle+lzf+fletcher32", "szip", "nbit", "scaleoffset", "scaleoffset+gzip")
#: libver, chunks, maxshape and allocation that make HDF5 use each kind of index.
INDEXES: dict[str, tuple[str, tuple[int, int], tuple[int | None, int | None] | None, bool]] = {
    "btree1": ("earliest", (5, 4), None, False),
    "single": ("latest", (13, 11), None, False),
    "implicit": ("latest", (5, 4), None, True),
    "fixed": ("latest", (5, 4), None, False),
    "extensible": ("latest", (5, 4), (None, 11), False),
    "btree2": ("latest", (5, 4), (None, None), False),
    "wide": ("latest", (20, 30), (None, None), False),
}


class TestContract(FormatContract):
    format = FORMAT
    # zlib is held too, under the name gzip: see test_zlib_is_gzip.
    codecs = tuple(codec for codec in FormatContract.codecs if codec != "zlib:1")

    def test_missing_objects(self, tmp_path: Path) -> None:
        pytest.skip("raw chunks are all allocated at creation; see the classes below for chunks that may be missing")


class TestGzipContract(FormatContract):
    """The same with encoded chunks, which HDF5 places."""

    format = FORMAT
    inner = "some/group/array"
    codecs = ("fletcher32", "shuffle+gzip:9+fletcher32")
    default = "shuffle+gzip:1"

    def adapt(self, schema: Schema, asked: Collection[str] = ()) -> Schema:
        return super().adapt(schema if schema.codec else replace(schema, codec=Codec.parse(self.default)), asked)


class TestLzfContract(TestGzipContract):
    """The same through h5py."""

    codecs = ("shuffle+lzf", "lzf+fletcher32")
    default = "lzf"


def make(
    path: Path,
    data: Array,
    filters: str = "none",
    *,
    chunks: tuple[int, ...] | None = None,
    maxshape: Any = None,
    libver: Any = None,
    early: bool = False,
    edges: bool = False,
    userblock: int = 0,
    fill: Any = None,
) -> Path:
    """A dataset `x` made by h5py with any filters in any order."""
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunks is not None:
        dcpl.set_chunk(chunks)
    if early:
        dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    if fill is not None:
        dcpl.set_fill_value(np.asarray(fill, data.dtype))
    for name in filters.split("+") if filters != "none" else ():
        if name == "gzip":
            dcpl.set_deflate(4)
        elif name == "szip":
            dcpl.set_szip(h5py.h5z.SZIP_NN_OPTION_MASK, 4)
        elif name == "scaleoffset":
            dcpl.set_scaleoffset(h5py.h5z.SO_INT, 0)
        else:
            dcpl.set_filter(NAMES[name], h5py.h5z.FLAG_OPTIONAL if name == "lzf" else h5py.h5z.FLAG_MANDATORY)
    if edges:
        # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS, which h5py does not offer.
        setter = ctypes.PyDLL(h5py.h5p.__file__).H5Pset_chunk_opts
        setter.argtypes = [ctypes.c_int64, ctypes.c_uint]
        assert setter(dcpl.id, 2) == 0
    limits = None if maxshape is None else tuple(h5py.h5s.UNLIMITED if n is None else n for n in maxshape)
    space = h5py.h5s.create_simple(data.shape, limits) if data.shape else h5py.h5s.create(h5py.h5s.SCALAR)
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        kind = h5py.h5t.py_create(data.dtype, logical=True)
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, space, dcpl))
        if data.size:
            dataset[...] = data
    return path


def opened(path: Path | str, inner: str = "") -> Store:
    return FORMAT.open(str(path), inner)


def ramp(dtype: str = "<i4", shape: tuple[int, ...] = (13, 11)) -> Array:
    return (np.arange(np.prod(shape)) // 3 % 100).astype(dtype).reshape(shape)


def truth(path: Path | str, name: str = "x") -> Array:
    with h5py.File(path, "r") as file:
        return file[name][()] if file[name].shape else np.array(file[name][()], file[name].dtype)


def written(path: Path, schema: Schema, data: Array, inner: str = "x") -> Store:
    store = FORMAT.create(str(path), inner, FORMAT.adapt(schema, ()))
    write_array(store, data)
    store.checkpoint()
    store.commit()
    store.commit()
    return store


# -------------------------------------------------------------------- reading what h5py wrote
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("filters", FILTERS + LIBRARY)
def test_every_index_and_filter(tmp_path: Path, index: str, filters: str) -> None:
    libver, chunks, maxshape, early = INDEXES[index]
    path = make(tmp_path / "a.h5", ramp(), filters, chunks=chunks, maxshape=maxshape, libver=libver, early=early)
    store = opened(path)
    assert store.reads is (TransferMode.BOX if filters in LIBRARY else TransferMode.EXTENT)
    assert same_bits(read_array(store), ramp())
    assert store.schema.codec.names == tuple(filters.split("+") if filters != "none" else ())
    assert store.schema.chunks == chunks
    assert store.layout.encoded == (filters != "none") == (not store.layout.partial_reads)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["compact", "contiguous", "chunked", "shuffle+gzip", "lzf"])
def test_every_type(tmp_path: Path, dtype: str, how: str) -> None:
    data = noise((5, 7), dtype)
    path = tmp_path / "a.h5"
    if how == "compact":
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_layout(h5py.h5d.COMPACT)
        with h5py.File(path, "w") as file:
            kind, space = h5py.h5t.py_create(data.dtype, logical=True), h5py.h5s.create_simple(data.shape)
            h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, space, dcpl))[...] = data
    elif how == "contiguous":
        make(path, data)
    else:
        make(path, data, "none" if how == "chunked" else how, chunks=(2, 3))
    store = opened(path)
    assert store.schema.dtype == data.dtype
    assert store.reads is (TransferMode.BOX if how in ("compact", "lzf") else TransferMode.EXTENT)
    assert same_bits(read_array(store), data)


@pytest.mark.parametrize("userblock", [512, 4096])
@pytest.mark.parametrize("filters", ["none", "gzip"])
@pytest.mark.parametrize("chunks", [None, (5, 4)])
def test_user_block(tmp_path: Path, userblock: int, filters: str, chunks: tuple[int, int] | None) -> None:
    if chunks is None and filters != "none":
        chunks = (13, 11)
    path = make(tmp_path / "a.h5", ramp(), filters, chunks=chunks, userblock=userblock)
    assert FORMAT.probe(str(path))
    assert same_bits(read_array(opened(path)), ramp())


@pytest.mark.parametrize("filters", ["gzip", "shuffle", "fletcher32"])
def test_edge_chunks_that_skip_the_filters(tmp_path: Path, filters: str) -> None:
    path = make(tmp_path / "a.h5", ramp(), filters, chunks=(5, 4), libver="latest", edges=True)
    assert same_bits(read_array(opened(path)), ramp())


def test_filter_mask(tmp_path: Path) -> None:
    data = ramp("<i4", (12,))
    path = make(tmp_path / "a.h5", data, "shuffle+gzip", chunks=(4,))
    with h5py.File(path, "r+") as file:
        file["x"].id.write_direct_chunk((0,), data[:4].tobytes(), filter_mask=0b11)
        file["x"].id.write_direct_chunk((4,), zlib.compress(data[4:8].tobytes()), filter_mask=0b01)
    store = opened(path)
    assert [extent.mask for i in range(3) if (extent := store.extents((i,), [(i,)], read_extent)[0])] == [3, 1, 0]
    assert same_bits(read_array(store), data)
    assert same_bits(truth(path), data)


@pytest.mark.parametrize("filters", ["none", "gzip"])
def test_missing_chunks_are_fill(tmp_path: Path, filters: str) -> None:
    path = make(tmp_path / "a.h5", np.zeros((0, 6), ">f4"), filters, chunks=(2, 3), maxshape=(None, 6), fill=2.5)
    with h5py.File(path, "r+") as file:
        file["x"].resize((7, 6))
        file["x"][2:4, 3:6] = 1
    store = opened(path)
    assert store.fills
    assert store.schema.fill_value == 2.5
    assert [i for i in store.layout.objects.indices() if store.extents(i, [i], read_extent)[0]] == [(1, 1)]
    assert same_bits(read_array(store), truth(path))


def test_unallocated_contiguous_is_fill(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (3, 4), "<i2", fillvalue=-5)
    store = opened(tmp_path / "a.h5")
    assert store.extents((0, 0), [(0, 0)], read_extent) == [None]
    assert same_bits(read_array(store), np.full((3, 4), -5, "<i2"))


def test_the_default_fill_value_is_zero(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (3, 4), ">f4", chunks=(2, 2))
    fill = opened(tmp_path / "a.h5").schema.fill_value
    assert (fill, fill.dtype) == (0, np.dtype("f4"))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)], ids=str)
def test_scalars_and_empty_arrays(tmp_path: Path, shape: tuple[int, ...]) -> None:
    data = noise(shape, "<f8")
    path = make(tmp_path / "a.h5", data)
    assert same_bits(read_array(opened(path)), data)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = data
    assert same_bits(read_array(opened(tmp_path / "b.h5")), data)


def test_types_that_numpy_has_not_go_through_h5py(tmp_path: Path) -> None:
    short = h5py.h5t.STD_I32LE.copy()
    short.set_precision(24)
    names = h5py.h5t.enum_create(h5py.h5t.STD_I16BE)
    names.enum_insert(b"RED", 1)
    flags = h5py.h5t.enum_create(h5py.h5t.STD_U8LE)
    flags.enum_insert(b"FALSE", 0)
    flags.enum_insert(b"TRUE", 1)
    kinds = {"short": short, "names": names, "flags": flags, "bits": h5py.h5t.STD_B16LE}
    if hasattr(h5py.h5t, "COMPLEX_IEEE_F32BE"):
        kinds["complex"] = h5py.h5t.COMPLEX_IEEE_F32BE
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, kind in kinds.items():
            dataset = h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((6,))))
            dataset[...] = np.array([1, 0, 1, 1, 0, 1], dataset.dtype)
    for name in kinds:
        store = opened(path, name)
        assert store.reads is (TransferMode.EXTENT if name == "names" else TransferMode.BOX)
        assert read_array(store).tolist() == [1, 0, 1, 1, 0, 1]
    assert opened(path, "names").schema.dtype == np.dtype(">i2")
    assert "enumeration" in opened(path, "names").schema.notes[0]


@pytest.mark.parametrize("how", ["plain", "scalar", "gzip", "lzf", "compact", "terminated"])
def test_text_of_a_fixed_size_in_utf8(tmp_path: Path, how: str) -> None:
    path, text = tmp_path / "a.h5", "ß".encode()
    with h5py.File(path, "w") as file:
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(6)
        kind.set_cset(h5py.h5t.CSET_UTF8)
        kind.set_strpad(h5py.h5t.STR_NULLTERM if how == "terminated" else h5py.h5t.STR_NULLPAD)
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if how == "compact":
            dcpl.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((3,))
        if how in ("gzip", "lzf"):
            file.create_dataset("d", (3,), h5py.string_dtype("utf-8", 6), chunks=(2,), compression=how)
        elif how == "scalar":
            file.create_dataset("d", (), h5py.string_dtype("utf-8", 6))
        else:
            h5py.h5d.create(file.id, b"d", kind, space, dcpl)
        file["d"][...] = text
    report = reblock.repartition(path, tmp_path / "b.h5")
    assert [note for note in report.notes if "UTF-8" in note]
    with h5py.File(tmp_path / "b.h5") as file:
        assert np.all(file["data"][...] == text)


def test_read_box_into_any_memory(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5", ramp(), "lzf", chunks=(5, 4))
    out = np.zeros((4, 6), "<i4", order="F")
    opened(path).read_box(Box((3, 2), (7, 8)), out)
    assert (out == ramp()[3:7, 2:8]).all()


def test_many_threads_find_chunks(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5", ramp("<i4", (200, 50)), "gzip", chunks=(7, 3))
    store = opened(path)
    indices = list(store.layout.objects.indices())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: store.extents(i, [i], read_extent)[0], indices))
    assert len({extent.offset for extent in found if extent}) == len(indices)


@pytest.mark.parametrize("filters", ["none", "gzip"])
def test_an_index_too_long_to_keep_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: str) -> None:
    path = make(tmp_path / "a.h5", ramp(), filters, chunks=(5, 4), userblock=512)
    with h5py.File(tmp_path / "holes.h5", "w") as file:
        file.create_dataset("x", (13, 11), "<i4", chunks=(5, 4), fillvalue=3)[2, 2] = 1
    monkeypatch.setattr(Reader, "sweep", lambda *_: None)
    assert same_bits(read_array(opened(path)), ramp())
    assert same_bits(read_array(opened(tmp_path / "holes.h5")), truth(tmp_path / "holes.h5"))


def test_pickles_and_forks(tmp_path: Path) -> None:
    for filters in ("none", "gzip", "lzf"):
        store = opened(make(tmp_path / f"{filters}.h5", ramp(), filters, chunks=(5, 4)))
        assert same_bits(read_array(store), ramp())
        assert same_bits(read_array(pickle.loads(pickle.dumps(store))), ramp())
        child = os.fork()
        if not child:
            os._exit(0 if same_bits(read_array(store), ramp()) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert same_bits(read_array(store), ramp())


# -------------------------------------------------------------------- encodings and ways
def test_chunks_of_the_same_encoding_are_the_same_chunks(tmp_path: Path) -> None:
    source = opened(make(tmp_path / "a.h5", ramp(), "shuffle+gzip+fletcher32", chunks=(5, 4)))
    codec = Codec.parse("shuffle+gzip:4+fletcher32")
    schema = FORMAT.adapt(Schema((13, 11), np.dtype("<i4"), (5, 4), codec=codec), ())
    target = FORMAT.create(str(tmp_path / "b.h5"), "x", schema)
    assert source.encoding == target.encoding == "hdf5 shuffle:4+gzip:4+fletcher32"
    for index in source.layout.objects.indices():
        (extent,) = source.extents(index, [index], read_extent)
        assert extent is not None
        assert extent.mask == 0
        target.write_unit(index, read_extent(extent))
    target.commit()
    assert same_bits(read_array(opened(tmp_path / "b.h5")), ramp())
    assert same_bits(truth(tmp_path / "b.h5"), ramp())


def test_encodings_differ(tmp_path: Path) -> None:
    texts = ["gzip:1", "gzip:2", "shuffle+gzip:1", "gzip:1+shuffle", "gzip:1+fletcher32", "fletcher32", "shuffle"]
    schema, data = Schema((9,), np.dtype("<i4"), (4,)), ramp("<i4", (9,))
    stores = [
        written(tmp_path / f"{number}.h5", replace(schema, codec=Codec.parse(text)), data)
        for number, text in enumerate(texts)
    ]
    assert len({store.encoding for store in stores}) == len(texts)
    for number, filters in enumerate(("none", "lzf", "shuffle+lzf", "szip")):
        assert opened(make(tmp_path / f"r{number}.h5", ramp(), filters, chunks=(5, 4))).encoding == ""


def test_elements_that_hdf5_itself_moves_are_named(tmp_path: Path) -> None:
    for filters in ("none", "shuffle+gzip", "fletcher32"):
        assert not opened(make(tmp_path / f"{filters}.h5", ramp(), filters, chunks=(5, 4))).schema.notes
    (note,) = opened(make(tmp_path / "lzf.h5", ramp(), "shuffle+lzf", chunks=(5, 4))).schema.notes
    assert "read through HDF5's own library" in note
    assert "filter lzf" in note
    schema = Schema((13, 11), np.dtype("<i4"), (5, 4), codec=Codec.parse("shuffle+lzf"))
    adapted = FORMAT.adapt(schema, {"codec"})
    assert "written through HDF5's own library" in adapted.notes[0]
    assert FORMAT.adapt(adapted, ()).notes == adapted.notes
    assert not FORMAT.adapt(replace(schema, codec=Codec.parse("shuffle+gzip:1")), {"codec"}).notes
    with h5py.File(tmp_path / "bits.h5", "w") as file:
        h5py.h5d.create(file.id, b"x", h5py.h5t.STD_B16LE, h5py.h5s.create_simple((6,)))
    assert "the type or the storage" in opened(tmp_path / "bits.h5").schema.notes[-1]


def test_hdf5_reads_what_our_filters_made(tmp_path: Path) -> None:
    data = np.random.default_rng(1).standard_normal((64, 4096)).astype("<f4")
    for level in (0, 1, 4, 9):
        schema = Schema(data.shape, data.dtype, (32, 4096), codec=Codec.parse(f"shuffle+gzip:{level}"))
        written(tmp_path / f"{level}.h5", schema, data)
        assert same_bits(truth(tmp_path / f"{level}.h5"), data)


# -------------------------------------------------------------------- metadata
def test_attributes_and_axes(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "text": "ü",
        "bytes": np.bytes_(b"ab"),
        "number": np.int16(3),
        "flag": np.bool_(True),
        "complex": np.complex64(1j),
        "array": np.arange(6, dtype=">u4").reshape(2, 3),
        "large": np.arange(20_000, dtype="<f8"),
    }
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        dataset = file.create_dataset("x", data=ramp())
        for name, value in values.items():
            dataset.attrs[name] = value
        dataset.attrs["words"] = ["a", "bé"]
        dataset.attrs["nothing"] = h5py.Empty("f4")
        dataset.attrs["reference"] = dataset.ref
        dataset.attrs["pair"] = np.zeros((), [("a", "i4"), ("b", "f4")])
        file["scale"] = np.arange(13)
        file["scale"].make_scale("time")
        dataset.dims[0].attach_scale(file["scale"])
        dataset.dims[0].label, dataset.dims[1].label = "time", "x"
    schema = opened(tmp_path / "a.h5", "x").schema
    assert schema.axes == ("time", "x")
    assert set(schema.attributes) == {*values, "words", "nothing"}
    assert schema.attributes["nothing"].shape == (0,)
    assert schema.attributes["words"] == ["a", "bé"]
    for name, value in values.items():
        got = schema.attributes[name]
        assert np.array_equal(got, value)
        assert getattr(got, "dtype", None) == getattr(value, "dtype", None)
    lost = " ".join(schema.notes)
    assert all(f"'{name}'" in lost for name in ("nothing", "reference", "pair", "DIMENSION_LIST"))
    scale = FORMAT.adapt(opened(tmp_path / "a.h5", "scale").schema, ())
    assert scale.attributes == {}
    assert all(f"'{name}'" in " ".join(scale.notes) for name in ("CLASS", "NAME", "REFERENCE_LIST"))

    written(tmp_path / "b.h5", schema, ramp())
    with h5py.File(tmp_path / "b.h5", "r") as file:
        dataset = file["x"]
        assert [dim.label for dim in dataset.dims] == ["time", "x"]
        assert list(dataset.attrs["words"]) == ["a", "bé"]
        for name, value in values.items():
            assert np.array_equal(dataset.attrs[name], value)
            assert getattr(dataset.attrs[name], "dtype", None) == getattr(value, "dtype", None)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ([1, "a"], '[1, "a"]'),
        ([[1], [2, 3]], "[[1], [2, 3]]"),
        ([2**63, -1], f"[{2**63}, -1]"),
        (2**70, str(2**70)),
        ("a\0b", '"a\\u0000b"'),
        (np.datetime64("2020-01-02"), "2020-01-02"),
        (None, None),
        (object(), None),
    ],
    ids=["nested", "mixed", "ragged", "rounded", "long", "nul", "date", "none", "object"],
)
def test_attributes_that_hdf5_has_not_are_named(tmp_path: Path, value: Any, kept: Any) -> None:
    schema = Schema((3,), np.dtype("i4"), (3,), attributes={"odd": value})
    adapted = FORMAT.adapt(schema, ())
    assert adapted.attributes.get("odd") == kept
    assert len(adapted.notes) == 1
    assert "'odd'" in adapted.notes[0]
    assert FORMAT.adapt(adapted, ()).notes == adapted.notes
    written(tmp_path / "a.h5", adapted, ramp("=i4", (3,)))
    assert opened(tmp_path / "a.h5").schema.attributes == adapted.attributes


@pytest.mark.parametrize(
    "value",
    [True, -(2**63), 2**64 - 1, 0.1, float("nan"), "", "日本", [1, 2], [0.5, float("nan")], [[1, 2], [3, 4]], [],
     ["a", "b"], np.array(["a", "bé"]), b"ab", np.float16(2), np.arange(3, dtype=">i2"), (1.5, 2), [True, False],
     "x" * 100_000],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_attributes_that_hdf5_has_are_kept(tmp_path: Path, value: Any) -> None:
    adapted = FORMAT.adapt(Schema((3,), np.dtype("i4"), (3,), attributes={"a": value}), ())
    assert not adapted.notes
    written(tmp_path / "a.h5", adapted, ramp("=i4", (3,)))
    np.testing.assert_array_equal(opened(tmp_path / "a.h5").schema.attributes["a"], value)


# -------------------------------------------------------------------- writing for h5py
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("codec", "way"),
    [
        ("none", TransferMode.EXTENT),
        ("gzip:4", TransferMode.UNIT),
        ("shuffle+gzip:1+fletcher32", TransferMode.UNIT),
        ("shuffle+lzf", TransferMode.BOX),
    ],
)
def test_h5py_reads_what_we_write(tmp_path: Path, dtype: str, codec: str, way: TransferMode) -> None:
    data = noise((13, 11), dtype)
    store = written(tmp_path / "a.h5", Schema((13, 11), data.dtype, (5, 4), codec=Codec.parse(codec)), data, "some/x")
    assert store.writes is way
    assert same_bits(truth(tmp_path / "a.h5", "some/x"), data)
    with h5py.File(tmp_path / "a.h5", "r") as file:
        dataset = file["some/x"]
        assert dataset.chunks == (5, 4)
        assert dataset.shuffle == ("shuffle" in codec)
        assert dataset.fletcher32 == ("fletcher32" in codec)
        assert dataset.compression == ("gzip" if "gzip" in codec else "lzf" if "lzf" in codec else None)


@pytest.mark.parametrize("shape", [(), (1,), (6,), (13, 11), (0,), (2, 0, 3)], ids=str)
def test_one_chunk_without_codec_is_contiguous(tmp_path: Path, shape: tuple[int, ...]) -> None:
    data = noise(shape, ">f4")
    schema = FORMAT.adapt(Schema(shape, data.dtype, tuple(n + 1 for n in shape)), ())
    written(tmp_path / "a.h5", schema, data)
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert file["x"].chunks is None
    assert same_bits(truth(tmp_path / "a.h5"), data)
    assert opened(tmp_path / "a.h5").layout == FORMAT.layout(schema)


def test_without_a_name_it_is_called_data(tmp_path: Path) -> None:
    store = written(tmp_path / "a.h5", Schema((3,), np.dtype("i4"), (3,)), ramp("=i4", (3,)), "")
    assert store.location == f"{tmp_path}/a.h5::data"
    assert opened(tmp_path / "a.h5").location == store.location


@pytest.mark.parametrize("codec", ["none", "shuffle+gzip:4+fletcher32", "lzf"])
def test_hdf5_tools_read_what_we_write(tmp_path: Path, codec: str) -> None:
    if not shutil.which("h5dump") or not shutil.which("h5ls"):
        pytest.skip("h5dump and h5ls of the Debian package hdf5-tools are not installed")
    data = ramp("<f4", (13, 11))
    attributes = {"big": np.arange(20_000), "text": "ü"}
    schema = Schema((13, 11), data.dtype, (5, 4), codec=Codec.parse(codec), attributes=attributes, axes=("y", "x"))
    written(tmp_path / "a.h5", schema, data, "g/x")
    listing = subprocess.run(["h5ls", "-rv", "a.h5"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "{13/13, 11/11}" in listing.stdout
    if codec == "lzf":  # the tools have no lzf
        return
    dump = ["h5dump", "-d", "/g/x", "-b", "LE", "-o", "out.bin", "a.h5"]
    subprocess.run(dump, cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / "out.bin").read_bytes() == data.tobytes()


def test_the_same_input_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.h5", "b.h5"):
        written(tmp_path / name, Schema((13, 11), np.dtype("<i4"), (5, 4), attributes={"a": 1}), ramp(), "g/h/x")
        time.sleep(1.1)  # HDF5 counts time in seconds
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_hundred_thousand_chunks(tmp_path: Path) -> None:
    schema = FORMAT.adapt(Schema((100, 2000, 4), np.dtype("<i8"), (1, 2, 4)), ())
    store = FORMAT.create(str(tmp_path / "a.h5"), "x", schema)
    places = np.sort([store.place(index).offset for index in store.layout.objects.indices()])
    assert places.size == 100_000
    assert (np.diff(places) >= 64).all()
    assert places[-1] + 64 <= os.path.getsize(tmp_path / "a.h5")
    place = store.place((99, 999, 0))
    with open(place.path, "r+b") as file:
        file.seek(place.offset)
        file.write(np.arange(8, dtype="<i8").tobytes())
    store.commit()
    assert truth(tmp_path / "a.h5")[99, 1998:].ravel().tolist() == list(range(8))


def test_creation_writes_no_elements(tmp_path: Path) -> None:
    for chunks in ((1 << 24, 8), (1 << 20, 8)):
        path = tmp_path / f"{chunks[0]}.h5"
        FORMAT.create(str(path), "x", FORMAT.adapt(Schema((1 << 24, 8), np.dtype("<f8"), chunks), ())).abort()
        assert path.stat().st_size > 1 << 30
        assert path.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("codec", ["none", "gzip:1", "lzf"])
def test_what_was_flushed_survives_a_kill(tmp_path: Path, codec: str) -> None:
    program = f"""if True:
        import os, numpy as np
        from reblock.model import Codec, Schema
        from reblock.storage.hdf5.format import FORMAT
        from reblock.testing.reference_io import write_array
        schema = FORMAT.adapt(Schema((13, 11), np.dtype("<i4"), (5, 4), codec=Codec.parse({codec!r})), ())
        store = FORMAT.create({str(tmp_path / "a.h5")!r}, "x", schema)
        write_array(store, np.arange(143, dtype="<i4").reshape(13, 11))
        store.checkpoint()
        os.kill(os.getpid(), 9)
    """
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    assert (truth(tmp_path / "a.h5") == np.arange(143).reshape(13, 11)).all()


def test_create_leaves_nothing_behind(tmp_path: Path) -> None:
    schema = Schema((3,), np.dtype("i4"), (3,), attributes={"bad": object()})
    with pytest.raises(ReblockError):
        FORMAT.create(str(tmp_path / "a.h5"), "x", schema)
    assert os.listdir(tmp_path) == []
    (tmp_path / "b.h5").symlink_to("nowhere")
    with pytest.raises(TargetExistsError):
        FORMAT.create(str(tmp_path / "b.h5"), "x", FORMAT.adapt(replace(schema, attributes={}), ()))
    assert os.listdir(tmp_path) == ["b.h5"]


# -------------------------------------------------------------------- adapt
def plain(**changes: Any) -> Schema:
    return Schema(**{"shape": (10, 7), "dtype": np.dtype("<f4"), "chunks": (4, 3), **changes})


@pytest.mark.parametrize(
    ("schema", "asked", "words"),
    [
        (plain(chunks=((3, 3, 4), 3)), {"chunks"}, "one length per axis, not 3\\+3\\+4: use 4"),
        (plain(shards=(8, 6)), {"shards"}, "no shards"),
        (plain(order=(1, 0)), {"order"}, "transpose instead"),
        (plain(codec=Codec.parse("lz4:1")), {"codec"}, "cannot hold codec lz4:1: it has none, gzip"),
        (plain(codec=Codec.parse("gzip:1+lzf")), {"codec"}, "cannot hold codec"),
        (plain(codec=Codec.parse("gzip:1+gzip:2")), {"codec"}, "cannot hold codec"),
        (plain(shape=(), chunks=(), codec=Codec.parse("gzip:1")), {"codec"}, "use none"),
        (plain(dtype=np.dtype("M8[Y]")), (), "CF has no unit"),
        (plain(dtype=np.dtype("U3")), (), "cannot hold this type"),
        (plain(dtype=np.dtype("O")), (), "cannot hold this type"),
        (plain(dtype=np.dtype("i4,f4")), (), "cannot hold this type"),
        (plain(shape=(1 << 20, 1 << 20), chunks=(1 << 15, 1 << 15)), (), "4,294,967,295: use at most 1,073,741,823 el"),
        (plain(shape=(1 << 31,), chunks=(1 << 31,), codec=Codec.parse("gzip:1")), (), "limit is 4,294,967,295"),
        (plain(fill_value=np.complex64(1j)), {"fill_value"}, "not a value of type float32"),
    ],
)
def test_what_was_asked_and_cannot_be_is_refused(schema: Schema, asked: Collection[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        FORMAT.adapt(schema, asked)


@pytest.mark.parametrize(
    ("schema", "field", "value", "noted"),
    [
        (plain(chunks=((3, 3, 4), 3)), "chunks", (4, 3), True),
        (plain(chunks=((4, 4, 2), 3)), "chunks", (4, 3), False),
        (plain(chunks=(40, 3)), "chunks", (10, 3), False),
        (plain(shards=(8, 6)), "shards", None, True),
        (plain(order=(1, 0)), "order", (0, 1), False),
        (plain(codec=Codec.parse("blosc:zstd:5:shuffle")), "codec", Codec.parse("shuffle+gzip:4"), True),
        (plain(codec=Codec.parse('[{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 3}]')),
         "codec", Codec.parse("shuffle+gzip:3"), False),
        (plain(codec=Codec.parse('{"id": "shuffle", "elementsize": 2}')), "codec", Codec.parse("shuffle+gzip:4"), True),
        (plain(shape=(), chunks=(), codec=Codec.parse("gzip:1")), "codec", Codec(), True),
        (plain(dtype=np.dtype("u1"), fill_value=-1), "fill_value", 0, True),
        (plain(dtype=np.dtype("u1"), fill_value=float("nan")), "fill_value", 0, True),
        (plain(dtype=np.dtype("u1"), fill_value=np.int64(7)), "fill_value", 7, False),
        (plain(axes=("a", "")), "axes", None, True),
    ],
)  # fmt: skip
def test_what_cannot_be_is_replaced_and_named(schema: Schema, field: str, value: Any, noted: bool) -> None:
    adapted = FORMAT.adapt(schema, ())
    assert getattr(adapted, field) == value
    assert bool(adapted.notes) == noted
    assert FORMAT.adapt(adapted, {"chunks", "shards", "order", "codec", "fill_value"}) == adapted


def test_zlib_is_gzip(tmp_path: Path) -> None:
    schema = FORMAT.adapt(plain(codec=Codec.parse("zlib:7")), {"codec"})
    assert (str(schema.codec), schema.notes) == ("gzip:7", ())
    data = noise((10, 7), "<f4")
    written(tmp_path / "a.h5", schema, data)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].compression_opts == 7
    assert same_bits(truth(tmp_path / "a.h5"), data)


# -------------------------------------------------------------------- finding a dataset
def test_the_only_dataset_is_found_in_a_loop_of_links(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/b/x"] = ramp()
        file["a/b/up"] = file["a"]
        file["a/b/root"] = file["/"]
        file["again"] = file["a/b/x"]
        file["soft"] = h5py.SoftLink("/a/b/x")
        file["relative"] = h5py.SoftLink("a/b")
        file["round"] = h5py.SoftLink("round")
        file["dangling"] = h5py.SoftLink("/nowhere")
    path = str(tmp_path / "a.h5")
    assert FORMAT.open(path, "").location in (f"{path}::a/b/x", f"{path}::again")
    for inner in ("a/b/x", "a/b/up/b/root/a/b/x", "soft", "relative/x", "/a//b/x/"):
        assert same_bits(read_array(FORMAT.open(path, inner)), ramp())
    for inner in ("round", "dangling", "a/y", "a/b/x/y", "é"):
        with pytest.raises(FormatError):
            FORMAT.open(path, inner)


def test_several_datasets_are_listed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(30):
            file[f"g/x{number:02}"] = number
    with pytest.raises(FormatError, match=r"one of g/x00, .*g/x09, \.\.\.$"):
        opened(tmp_path / "a.h5")
    with pytest.raises(FormatError, match="is a group: add ::NAME, one of g/x00"):
        opened(tmp_path / "a.h5", "g")
    with h5py.File(tmp_path / "b.h5", "w"):
        pass
    with pytest.raises(FormatError, match="no dataset"):
        opened(tmp_path / "b.h5")


def test_a_symlink_to_a_file_is_fine(tmp_path: Path) -> None:
    make(tmp_path / "a.h5", ramp(), "gzip", chunks=(5, 4))
    (tmp_path / "link").symlink_to("a.h5")
    assert same_bits(read_array(opened(tmp_path / "link")), ramp())


# -------------------------------------------------------------------- files that mean harm
def test_bytes_of_other_files_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"secret!!" * 8)
    make(tmp_path / "other.h5", ramp())
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("external", (64,), "u1", external=[(str(secret), 0, 64)])
        file["link"] = h5py.ExternalLink("other.h5", "/x")
        file["soft"] = h5py.SoftLink("/link")
        layout = h5py.VirtualLayout((13, 11), "<i4")
        layout[:] = h5py.VirtualSource("other.h5", "x", (13, 11))
        file.create_virtual_dataset("virtual", layout)
    for inner, word in (
        ("external", "secret.bin"),
        ("link", "other.h5"),
        ("soft", "other.h5"),
        ("virtual", "other.h5"),
    ):
        with pytest.raises(ExternalError, match=word):
            opened(tmp_path / "a.h5", inner)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "/x")
    with pytest.raises(FormatError, match=r"no dataset of its own: link is a link to another file, other\.h5"):
        opened(tmp_path / "b.h5")


def test_types_that_are_not_plain_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["text"] = ["a", "b"]
        file["pair"] = np.zeros(3, [("a", "i4"), ("b", "f4")])
        file.create_dataset("ragged", (3,), h5py.vlen_dtype("i4"))
        file.create_dataset("reference", (3,), h5py.ref_dtype)
        file.create_dataset("array", (3,), np.dtype(("i4", (2,))))
        file["null"] = h5py.Empty("f4")
        h5py.h5d.create(file.id, b"time", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((3,)))
        names = list(file)
    for name in names:
        with pytest.raises(FormatError, match=f"::{name}"):
            opened(tmp_path / "a.h5", name)


def test_unknown_filters_are_refused_by_number(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5", ramp(), "gzip", chunks=(5, 4))
    data = path.read_bytes()
    # The filter message of a version 1 pipeline: number, length of the name, flags, number of values.
    place = data.index(b"\x01\x00\x08\x00\x01\x00\x01\x00deflate\0")
    path.write_bytes(data[:place] + (32099).to_bytes(2, "little") + data[place + 2 :])
    with pytest.raises(FormatError, match=r"filter 32099 \(deflate\), which is not supported; .* 'reblock\[filters\]'"):
        opened(path)


def test_plugins_are_not_loaded_from_the_environment(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler to make a plugin with")
    source = "#include <fcntl.h>\n__attribute__((constructor)) static void f(void) { creat(MARK, 0600); }\n"
    (tmp_path / "p.c").write_text(source)
    mark, plugins = tmp_path / "mark", tmp_path / "plugins"
    plugins.mkdir()
    build = [compiler, "-shared", "-fPIC", f'-DMARK="{mark}"', "-o", str(plugins / "libp.so"), str(tmp_path / "p.c")]
    subprocess.run(build, check=True)
    path = make(tmp_path / "a.h5", ramp(), "gzip", chunks=(5, 4))
    data = path.read_bytes()
    place = data.index(b"\x01\x00\x08\x00\x01\x00\x01\x00deflate\0")
    path.write_bytes(data[:place] + (32099).to_bytes(2, "little") + data[place + 2 :])
    environment = {**os.environ, "HDF5_PLUGIN_PATH": str(plugins)}
    ours = f"from reblock.storage.hdf5.format import FORMAT; FORMAT.open({str(path)!r}, '')"
    theirs = f"import h5py; h5py.File({str(path)!r})['x'][...]"
    for program, loaded in ((ours, False), (theirs, True)):
        run = [sys.executable, "-c", program]
        assert subprocess.run(run, env=environment, capture_output=True, check=False).returncode == 1
        assert mark.exists() == loaded


def test_a_terabyte_in_a_tiny_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("chunked", (1 << 20, 1 << 20), "u1", chunks=(16, 16), compression="gzip")[5, 5] = 1
        file.create_dataset("contiguous", (1 << 40,), "u1")
    assert (tmp_path / "a.h5").stat().st_size < 20_000
    tracemalloc.start()
    try:
        store = opened(tmp_path / "a.h5", "chunked")
        assert store.layout.objects.count == 1 << 32
        assert store.extents((9, 9), [(9, 9)], read_extent) == [None]
        assert store.extents((0, 0), [(0, 0)], read_extent) != [None]
        assert opened(tmp_path / "a.h5", "contiguous").layout.nbytes == 1 << 40
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def only_extent(store: Store) -> Extent:
    (extent,) = store.extents((0,), [(0,)], read_extent)
    assert extent is not None
    return extent


def chunk_of(path: Path, data: bytes, filters: str = "gzip") -> Store:
    """A dataset whose only chunk of 1000 bytes is what the test says."""
    make(path, np.zeros(0, "u1"), filters, chunks=(1000,), maxshape=(None,))
    with h5py.File(path, "r+") as file:
        file["x"].resize((1000,))
        file["x"].id.write_direct_chunk((0,), data)
    return opened(path)


@pytest.mark.parametrize(
    ("data", "filters", "words"),
    [
        (zlib.compress(bytes(40_000_000)), "gzip", "inflates to more than"),
        (zlib.compress(bytes(1001)), "gzip", "decodes to 1001 bytes, not 1000"),
        (zlib.compress(bytes(999)), "gzip", "decodes to 999 bytes, not 1000"),
        (zlib.compress(noise((1000,), "u1").tobytes())[:-5], "gzip", "cut short"),
        (b"no deflate stream", "gzip", "does not inflate"),
        (bytes(1003) + b"\1", "fletcher32", "checksum"),
        (b"abc", "fletcher32", "too short"),
        (bytes(999), "shuffle", "decodes to 999"),
    ],
)
def test_chunks_that_do_not_decode(tmp_path: Path, data: bytes, filters: str, words: str) -> None:
    store = chunk_of(tmp_path / "a.h5", data, filters)
    extent = only_extent(store)
    stored, out = read_extent(extent), np.zeros(1000, np.uint8)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptError, match=words) as caught:
            store.decode(stored, extent, out)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert "a.h5::x: a chunk" in str(caught.value)
    assert f"{extent.length} bytes at {extent.offset}" in str(caught.value)


def test_a_chunk_of_unlikely_length_is_refused_unread(tmp_path: Path) -> None:
    store = chunk_of(tmp_path / "a.h5", bytes(200_000))
    with pytest.raises(CorruptError, match=r"chunk \(0,\) has 200000 bytes .* take 1000"):
        only_extent(store)


def test_a_corrupt_chunk_through_h5py(tmp_path: Path) -> None:
    store = chunk_of(tmp_path / "a.h5", b"\xff" * 50, "lzf")
    with pytest.raises(CorruptError, match=r"a\.h5::x"):
        read_array(store)


def test_broken_files(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5", ramp("<i4", (300, 100)), "gzip", chunks=(50, 40))
    whole = path.read_bytes()
    for keep in (0, 7, 8, 100, 600, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:keep])
        assert FORMAT.probe(str(path)) == (keep >= 8)
        with pytest.raises(FormatError) as caught:
            opened(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b"X" + whole[1:])
    with pytest.raises(FormatError, match="no HDF5 signature"):
        opened(path)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        assert not FORMAT.probe(str(path))
        with pytest.raises(ReblockError, match=path.name):
            opened(path)


def test_a_file_that_is_being_written_is_refused_with_its_errno(tmp_path: Path) -> None:
    make(tmp_path / "a.h5", ramp())
    program = (
        f"import h5py, sys; f = h5py.File({str(tmp_path / 'a.h5')!r}, 'r+'); print('ok', flush=True); sys.stdin.read()"
    )
    writer = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert writer.stdout
        assert writer.stdout.readline() == b"ok\n"
        with pytest.raises(DiskError, match="EAGAIN"):
            opened(tmp_path / "a.h5")
    finally:
        writer.communicate()


def test_h5py_is_imported_only_when_used() -> None:
    program = "import sys, reblock.storage.hdf5; sys.exit('h5py' in sys.modules or 'numcodecs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
