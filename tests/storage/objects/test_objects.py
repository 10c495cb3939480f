"""Objects of h5py, zarr and numpy: recognised, reopened by path where that is the same array, else read through."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from numcodecs.abc import Codec
from numcodecs.registry import codec_registry

from reblock.errors import ExternalError, FormatError, UsageError
from reblock.geometry import Box
from reblock.model import ObjectBound, Store, TransferMode
from reblock.storage.objects.opening import open_object
from reblock.storage.objects.store import ObjectStore

ARRAY = np.arange(7 * 6 * 5, dtype="u2").reshape(7, 6, 5)


def read(store: Store) -> Any:
    out = np.empty(store.schema.shape, store.schema.dtype)
    assert store.read_box(Box.whole(store.schema.shape), out)
    return out


def note(store: Store) -> str:
    """Why a store is read through its object; it must be."""
    assert isinstance(store, ObjectBound)
    assert store.reads is TransferMode.BOX
    (found,) = [one for one in store.schema.notes if "read through the object" in one]
    assert "cannot be resumed" in found
    return found


def h5(path: Path, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("scan/x", data=ARRAY, **options)
        made.attrs["unit"] = "mm"
    return path


# ---------------------------------------------------------------- h5py
def test_a_dataset_of_a_local_file_is_opened_by_path(tmp_path: Path) -> None:
    with h5py.File(h5(tmp_path / "x.h5", chunks=(2, 3, 5), compression="gzip"), "r") as file:
        store = open_object(file["scan/x"])
    assert not isinstance(store, ObjectBound)
    assert store.location == f"{tmp_path}/x.h5::scan/x"
    assert str(store.schema.codec) == "gzip:4"


def test_so_is_one_behind_a_relative_name_and_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5(tmp_path / "x.h5")
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["far"] = h5py.ExternalLink("x.h5", "/scan/x")
    monkeypatch.chdir(tmp_path)
    with h5py.File("link.h5", "r") as file:
        assert open_object(file["far"]).location == f"{tmp_path}/x.h5::scan/x"


def test_a_dataset_that_is_open_for_writing_is_read_through(tmp_path: Path) -> None:
    """What was not flushed yet is there, too."""
    with h5py.File(h5(tmp_path / "x.h5", chunks=(2, 3, 5)), "r+") as file:
        file["scan/x"][0] = 9
        store = open_object(file["scan/x"])
        assert "open for writing" in note(store)
        assert isinstance(store, ObjectStore)
        assert store.backing == (f"{tmp_path}/x.h5",)
        assert np.array_equal(read(store), file["scan/x"][...])
        assert (read(store)[0] == 9).all()


@pytest.mark.parametrize("chunks", [None, (2, 3, 5)])
def test_a_dataset_in_memory_is_read_through(chunks: tuple[int, ...] | None) -> None:
    with h5py.File(io.BytesIO(), "w") as file:
        kind = {} if chunks is None else {"chunks": chunks, "shuffle": True, "compression": "gzip"}
        made = file.create_dataset("x", data=ARRAY.astype(">i4"), fillvalue=7, **kind)
        made.attrs["unit"] = "mm"
        store = open_object(made)
        assert "driver fileobj" in note(store)
        assert store.format == "hdf5"
        assert store.schema.dtype == np.dtype(">i4")
        assert (store.schema.fill_value, store.schema.attributes) == (7, {"unit": "mm"})
        assert str(store.schema.codec) == ("none" if chunks is None else "shuffle+gzip:4")
        assert store.schema.chunks == (chunks or ARRAY.shape)
        assert store.layout.encoded == (chunks is not None)
        assert np.array_equal(read(store), ARRAY)


def test_a_core_file_and_a_replaced_one_are_read_through(tmp_path: Path) -> None:
    with h5py.File(h5(tmp_path / "x.h5"), "r", driver="core") as file:
        assert "driver core" in note(open_object(file["scan/x"]))
    with h5py.File(tmp_path / "x.h5", "r") as file:
        (tmp_path / "x.h5").rename(tmp_path / "old.h5")
        assert "not where it was" in note(open_object(file["scan/x"]))
        h5(tmp_path / "x.h5")
        store = open_object(file["scan/x"])
        assert "another file by now" in note(store)
        assert np.array_equal(read(store), ARRAY)


def test_what_is_no_dataset_that_can_be_read_is_refused(tmp_path: Path) -> None:
    with h5py.File(h5(tmp_path / "x.h5"), "r+") as file:
        closed = file["scan/x"]
        with pytest.raises(UsageError, match="one of its datasets"):
            open_object(file)
        with pytest.raises(FormatError, match="Python objects"):
            open_object(file.create_dataset("text", data=["a", "bc"]))
        with pytest.raises(FormatError, match="null dataset"):
            open_object(file.create_dataset("null", data=h5py.Empty("f4")))
        with pytest.raises(UsageError, match=r"not h5py\."):
            open_object(closed.astype("f4"))
    with pytest.raises(UsageError, match="closed"):
        open_object(closed)


def test_elements_in_other_files_need_leave_as_for_a_path(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "raw").write_bytes(ARRAY.tobytes())
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", ARRAY.shape, ARRAY.dtype, external=[(str(outside / "raw"), 0, ARRAY.nbytes)])
    with h5py.File(tmp_path / "x.h5", "r") as file:
        with pytest.raises(ExternalError):
            open_object(file["x"])
        assert not isinstance(open_object(file["x"], [str(outside)]), ObjectBound)


# ---------------------------------------------------------------- zarr
@pytest.mark.parametrize("version", [2, 3])
def test_an_array_in_a_folder_is_opened_by_path(tmp_path: Path, version: int) -> None:
    made = zarr.create_array(tmp_path / "x.zarr", name="a/b", data=ARRAY, chunks=(2, 3, 5), zarr_format=version)
    store = open_object(made)
    assert not isinstance(store, ObjectBound)
    assert store.location == f"{tmp_path}/x.zarr::a/b"
    assert store.format == ("zarr" if version == 3 else "zarr2")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", ["u2", ">f4"])
def test_an_array_in_memory_is_read_through(version: int, dtype: str) -> None:
    made = zarr.create_array(
        zarr.storage.MemoryStore(),
        data=ARRAY.astype(dtype),
        chunks=(2, 3, 5),
        zarr_format=version,
        compressors=zarr.codecs.ZstdCodec(level=3) if version == 3 else None,
        attributes={"unit": "mm"},
        fill_value=7,
    )
    store = open_object(made)
    assert "MemoryStore" in note(store)
    assert (store.schema.chunks, store.schema.fill_value) == ((2, 3, 5), 7)
    assert store.schema.attributes == {"unit": "mm"}
    assert str(store.schema.codec).startswith("zstd:3" if version == 3 else "none")
    assert store.layout.encoded
    assert np.array_equal(read(store), ARRAY)


def test_chunks_and_shards_in_memory() -> None:
    made = zarr.create_array(zarr.storage.MemoryStore(), data=ARRAY, chunks=(2, 3, 5), shards=(4, 6, 5))
    store = open_object(made)
    assert store.layout.units.box((0, 0, 0)).shape == (2, 3, 5)
    assert np.array_equal(read(store), ARRAY)


class _Inverted(Codec):  # type: ignore[misc]
    """A codec that nobody else knows."""

    codec_id = "reblock-test-inverted"

    def encode(self, buf: Any) -> Any:
        return ~np.frombuffer(buf, "u1")

    def decode(self, buf: Any, out: Any = None) -> Any:
        assert out is None
        return ~np.frombuffer(buf, "u1")


def test_a_codec_that_only_zarr_knows_is_read_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(codec_registry, _Inverted.codec_id, _Inverted)
    made = zarr.create_array(
        tmp_path / "x.zarr",
        data=ARRAY.astype("f8"),
        chunks=(2, 3, 5),
        zarr_format=2,
        filters=[_Inverted()],
    )
    store = open_object(made)
    assert "reblock cannot read" in note(store)
    assert isinstance(store, ObjectStore)
    assert store.backing == (f"{tmp_path}/x.zarr",)
    assert not store.schema.codec
    assert any("codec is not kept" in one for one in store.schema.notes)
    assert np.array_equal(read(store), ARRAY)


def test_an_array_that_was_replaced_in_its_folder_is_another_array(tmp_path: Path) -> None:
    old = zarr.create_array(tmp_path / "x.zarr", data=ARRAY)
    zarr.create_array(tmp_path / "x.zarr", data=ARRAY[:3], overwrite=True)
    assert "another array" in note(open_object(old))


def test_groups_of_zarr_are_refused() -> None:
    with pytest.raises(UsageError, match="one of its arrays"):
        open_object(zarr.create_group(zarr.storage.MemoryStore()))


# ---------------------------------------------------------------- numpy
@pytest.mark.parametrize(
    "array",
    [
        pytest.param(ARRAY, id="C"),
        pytest.param(np.asfortranarray(ARRAY), id="Fortran"),
        pytest.param(ARRAY[::-2, :, 1::3], id="strided"),
        pytest.param(ARRAY.astype(">f8"), id="big-endian"),
        pytest.param(np.array(5, ">i4"), id="no axes"),
        pytest.param(np.empty((3, 0, 2), "f4"), id="empty"),
        pytest.param(np.array([1.5, -2.5], "g"), id="long double"),
        pytest.param(np.array([b"ab", b"c"]), id="bytes"),
    ],
)
def test_arrays_of_numpy(array: np.ndarray[Any, Any]) -> None:
    store = open_object(array)
    assert "in memory" in note(store)
    assert (store.format, store.schema.shape, store.schema.dtype) == ("npy", array.shape, array.dtype)
    assert np.array_equal(read(store), array)


def test_the_order_of_axes_in_memory_is_known() -> None:
    assert open_object(np.asfortranarray(ARRAY)).layout.order == (2, 1, 0)
    assert open_object(ARRAY.transpose(1, 0, 2)).layout.order == (1, 0, 2)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_memmap_of_an_npy_file_is_opened_by_path(tmp_path: Path, order: Any, mode: Any) -> None:
    np.save(tmp_path / "x.npy", np.asarray(ARRAY, order=order))
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
    if mode == "r+":
        mapped[0] = 9
    store = open_object(mapped)
    assert not isinstance(store, ObjectBound)
    assert store.location == f"{tmp_path}/x.npy"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="which file is mapped cannot be told here")
def test_other_memmaps_are_read_through(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, ARRAY)
    mapped = np.load(path, mmap_mode="r")
    for part in (mapped[1:], mapped[:, ::2], mapped.transpose(2, 1, 0), mapped.view("i2")):
        assert "not the whole array" in note(open_object(part))
        assert np.array_equal(read(open_object(part)), part)
    private = np.load(path, mmap_mode="c")
    private[0] = 9
    assert "copy-on-write" in note(open_object(private))
    assert (read(open_object(private))[0] == 9).all()
    assert (read(open_object(private))[0] == 9).all()
    ARRAY.tofile(tmp_path / "raw")
    raw = np.memmap(tmp_path / "raw", ARRAY.dtype, "r", shape=ARRAY.shape)
    assert ".npy" in note(open_object(raw))
    assert np.array_equal(read(open_object(raw)), ARRAY)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="which file is mapped cannot be told here")
def test_a_file_that_replaced_the_mapped_one_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, ARRAY)
    mapped = np.load(path, mmap_mode="r")
    np.save(tmp_path / "new.npy", ARRAY + 1)
    (tmp_path / "new.npy").rename(path)
    store = open_object(mapped)
    assert "holds now" in note(store)
    assert np.array_equal(read(store), ARRAY)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (np.ma.masked_array([1, 2], [True, False]), "masked"),
        (np.array([object()]), "Python objects"),
        (np.zeros(2, "i4,f8"), "structured"),
        ([1, 2, 3], "builtins.list"),
        (7, "builtins.int"),
    ],
)
def test_other_things_are_refused(source: Any, why: str) -> None:
    with pytest.raises((UsageError, FormatError), match=why):
        open_object(source)


# ---------------------------------------------------------------- all of them
def test_an_object_is_only_read() -> None:
    store = open_object(ARRAY)
    for call in (store.checkpoint, store.commit, lambda: store.write_box(Box.whole(ARRAY.shape), ARRAY)):
        with pytest.raises(UsageError, match="only reads"):
            call()
    store.abort()


def test_a_failing_library_is_named(tmp_path: Path) -> None:
    with h5py.File(h5(tmp_path / "x.h5"), "r+") as file:
        store = open_object(file["scan/x"])
    with pytest.raises(Exception, match="h5py cannot read it"):
        read(store)


def test_arrays_of_numpy_import_neither_h5py_nor_zarr() -> None:
    program = (
        "import sys, numpy, reblock\n"
        "assert reblock.open(numpy.arange(6))[2:4].tolist() == [2, 3]\n"
        "assert not {'h5py', 'zarr'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
