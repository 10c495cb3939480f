"""fileblocks: every block is a file that its own library reads, and folders of others are put together or refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import ExternalError, FormatError, ReblockError, UsageError
from reblock.geometry import Grid
from reblock.model.schema import Schema
from reblock.storage import registry
from reblock.testing.arrays import noise, same_bits
from reblock.testing.reference_io import read_array, write_array


def make(path: Path, name: str, schema: Schema) -> np.ndarray[Any, Any]:
    kind = registry.get(name)
    array = noise(schema.shape, schema.dtype)
    store = kind.create(str(path), "", kind.adapt(schema, ()))
    write_array(store, array)
    store.commit()
    return array


@pytest.mark.parametrize("chunks", [(4, 3), ((1, 6, 3), (5, 2)), (10, 7)], ids=str)
def test_blocks_are_files_of_h5py(tmp_path: Path, chunks: tuple[Any, ...]) -> None:
    schema = Schema((10, 7), np.dtype(">f4"), chunks, attributes={"unit": "K" * 5000}, axes=("y", "x"))
    array = make(tmp_path / "b", "fileblocks:h5:b {0}-{1:03}.h5", schema)
    grid = Grid.of((10, 7), chunks)
    for i, j in grid.indices():
        with h5py.File(tmp_path / "b" / f"b {i}-{j:03}.h5") as file:
            assert same_bits(file["data"][...], array[grid.box((i, j)).slices])
    store = registry.open(str(tmp_path / "b"))
    assert store.format == "fileblocks:hdf5:b {0}-{1:03}.h5"
    assert same_bits(read_array(store), array)
    assert store.schema.attributes == {"unit": "K" * 5000}
    assert store.schema.axes == ("y", "x")


def test_names_of_formats() -> None:
    assert registry.get("fileblocks").name == "fileblocks"
    assert registry.get("fileblocks:npy").name == "fileblocks"
    assert registry.get("fileblocks:hdf5:{index}.hdf5").name == "fileblocks:hdf5"
    assert registry.get("fileblocks:h5").name == "fileblocks:hdf5:{index}.h5"
    with pytest.raises(UsageError, match="zarr cannot hold blocks"):
        registry.get("fileblocks:zarr").adapt(Schema((3,), np.dtype("u1"), (2,)), ())
    for wrong in ("fileblocks:fileblocks", "fileblocks:exe", "npy:1", "fileblocks:npy:x.npy"):
        with pytest.raises(UsageError):
            registry.get(wrong)
    with pytest.raises(UsageError, match="names 2 axes, and the array has 1"):
        registry.get("fileblocks:npy:{0}_{1}.npy").adapt(Schema((3,), np.dtype("u1"), (2,)), ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_format", "../x"),
        ("block_format", "zarr"),
        ("block_format", 3),
        ("block_format", "npy:x"),
        ("files", "../{index}.npy"),
        ("files", "{0}.npy"),
        ("files", ["x"]),
        ("offsets", {}),
        ("offsets", [[[3, 2], -1]]),
        ("offsets", [[[3, 2], 1]]),
        ("offsets", [[[3, 2], 1 << 62]]),
        ("offsets", []),
        ("offsets", [[[3], 128]]),
        ("shape", [6, 5]),
        ("dtype", "<f8"),
        ("order", [1, 0]),
        ("reblock", 3),
    ],
)
def test_a_manifest_that_lies_is_found_out(tmp_path: Path, key: str, value: object) -> None:
    make(tmp_path / "b", "fileblocks", Schema((6, 4), np.dtype("<i4"), (3, 2)))
    path = tmp_path / "b" / "reblock.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ReblockError, match=r"reblock\.json|block|chunk|0_0\.npy"):
        read_array(registry.get("fileblocks").open(str(tmp_path / "b"), ""))


def test_a_block_that_is_a_link_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "b", "fileblocks", Schema((6, 4), np.dtype("<i4"), (3, 2)))
    os.rename(tmp_path / "b" / "1_1.npy", tmp_path / "elsewhere.npy")
    os.symlink(tmp_path / "elsewhere.npy", tmp_path / "b" / "1_1.npy")
    with pytest.raises(ExternalError):
        read_array(registry.open(str(tmp_path / "b")))


# ---------------------------------------------------------------- folders of others
def cut(folder: Path, array: np.ndarray[Any, Any], chunks: tuple[int, ...], name: str, *, by: str = "index") -> None:
    folder.mkdir()
    for index in Grid.of(array.shape, chunks).indices():
        box = Grid.of(array.shape, chunks).box(index)
        numbers = {"index": index, "one": tuple(n + 1 for n in index), "start": box.start}[by]
        np.save(folder / name.format(*numbers), array[box.slices])


@pytest.mark.parametrize("by", ["index", "one", "start"])
@pytest.mark.parametrize("named", [True, False])
def test_names_tell_positions(tmp_path: Path, by: str, named: bool) -> None:
    array = noise((13, 22), np.dtype("<i2"))
    cut(tmp_path / "b", array, (4, 5), "run7_y{0:03}_x{1}.npy", by=by)
    (tmp_path / "b" / "notes.txt").write_text("not a block")
    name = "fileblocks:npy"
    if named:
        os.rename(tmp_path / "b", tmp_path / "c")
        (tmp_path / "b").mkdir()
        for file in (tmp_path / "c").iterdir():
            os.rename(file, tmp_path / "b" / file.name.replace("run7", "run"))
        name = "fileblocks:npy:run_y{0:03}_x{1}.npy"
    store = registry.get(name).open(str(tmp_path / "b"), "")
    assert store.schema.chunks == ((4, 4, 4, 1), (5, 5, 5, 5, 2))
    assert same_bits(read_array(store), array)


def test_headers_tell_positions(tmp_path: Path) -> None:
    array = noise((13, 22), np.dtype("<i2"))
    (tmp_path / "b").mkdir()
    grid = Grid.of(array.shape, (4, 5))
    for number, index in enumerate(grid.indices()):
        with h5py.File(tmp_path / "b" / f"{number * 17 % 31}.h5", "w") as file:
            file["data"] = array[grid.box(index).slices]
            file["data"].attrs["origin"] = grid.box(index).start
            file["data"].attrs["unit"] = "K"
    store = registry.get("fileblocks:h5").open(str(tmp_path / "b"), "")
    assert same_bits(read_array(store), array)
    assert dict(store.schema.attributes) == {"unit": "K"}


def test_missing_and_overlapping_blocks_are_named(tmp_path: Path) -> None:
    array = noise((13, 22), np.dtype("<i2"))
    cut(tmp_path / "hole", array, (4, 5), "b_{0}_{1}.npy")
    os.remove(tmp_path / "hole" / "b_2_3.npy")
    cut(tmp_path / "row", array, (4, 5), "b_{0}_{1}.npy")
    for j in range(5):
        os.remove(tmp_path / "row" / f"b_1_{j}.npy")
    cut(tmp_path / "gap", array, (4, 5), "b_{0}_{1}.npy", by="start")
    for j in range(0, 22, 5):
        os.remove(tmp_path / "gap" / f"b_4_{j}.npy")
    cut(tmp_path / "over", array, (4, 5), "b_{0}_{1}.npy", by="start")
    for i in range(0, 13, 4):
        block = np.load(tmp_path / "over" / f"b_{i}_5.npy")
        np.save(tmp_path / "over" / f"b_{i}_5.npy", np.concatenate([block, block], axis=1))
    cut(tmp_path / "odd", array, (4, 5), "b_{0}_{1}.npy")
    np.save(tmp_path / "odd" / "b_1_1.npy", np.zeros((3, 5), "<i2"))
    cut(tmp_path / "type", array, (4, 5), "b_{0}_{1}.npy")
    np.save(tmp_path / "type" / "b_1_1.npy", np.zeros((4, 5), "<f2"))
    cut(tmp_path / "twice", array, (4, 5), "b_{0}_{1}.npy")
    np.save(tmp_path / "twice" / "b_01_1.npy", np.zeros((4, 5), "<i2"))
    said = {
        "hole": r"a block is missing: b_2_3\.npy",
        "row": r"missing along axis 0: there is none with number 1, such as b_1_0\.npy",
        "gap": r"b_0_0\.npy and b_8_0\.npy leave a gap of 4 along axis 0",
        "over": r"b_0_5\.npy and b_0_10\.npy overlap along axis 1|b_0_0\.npy|b_0_5\.npy",
        "odd": r"b_1_\d\.npy and b_1_\d\.npy have \d and \d elements along axis 0",
        "type": r"b_1_1\.npy holds float16",
        "twice": r"b_01_1\.npy and b_1_1\.npy are the same block",
    }
    for name, words in said.items():
        with pytest.raises(FormatError, match=words):
            registry.get("fileblocks:npy").open(str(tmp_path / name), "")


def test_folders_that_tell_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(FormatError, match="no block files"):
        registry.get("fileblocks:npy").open(str(tmp_path / "b"), "")
    np.save(tmp_path / "b" / "left.npy", np.zeros((2, 2)))
    np.save(tmp_path / "b" / "right.npy", np.zeros((2, 2)))
    with pytest.raises(FormatError, match="neither names nor headers"):
        registry.get("fileblocks:npy").open(str(tmp_path / "b"), "")
    with pytest.raises(UsageError, match="raw blocks have no headers"):
        registry.get("fileblocks:raw").open(str(tmp_path / "b"), "")
    with h5py.File(tmp_path / "b" / "0_0.h5", "w") as file:
        file.create_dataset("data", data=np.zeros((4, 4)), chunks=(2, 2), compression="gzip")
    with pytest.raises(FormatError, match="not one run of elements"):
        registry.get("fileblocks:h5").open(str(tmp_path / "b"), "")


# ---------------------------------------------------------------- blocks in space
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("named", [True, False])
def test_blocks_of_a_volume_know_their_place(tmp_path: Path, version: int, named: bool) -> None:
    """nibabel finds each block where it is in the volume, and the blocks make up the same file again."""
    nibabel = pytest.importorskip("nibabel")
    array = noise((11, 9, 7, 2), np.dtype(">i2"))
    affine = np.array([[2.0, 0.5, 0, -10], [0, 3, 0, -20], [0, 0, -4, 30], [0, 0, 0, 1]])
    header = (nibabel.Nifti1Header if version == 1 else nibabel.Nifti2Header)(endianness=">")
    header["descrip"] = b"a volume"
    kind = nibabel.Nifti1Image if version == 1 else nibabel.Nifti2Image
    image = kind(array, affine, header, dtype=array.dtype)
    image.set_qform(affine, code=1)
    image.to_filename(tmp_path / "a.nii")
    reblock.split(
        tmp_path / "a.nii", tmp_path / "b", chunks=(4, 9, 3, 2), block_format="nii", pattern="{0}-{1}-{2}-{3}.nii"
    )
    grid = Grid.of(array.shape, (4, 9, 3, 2))
    for number, index in enumerate(grid.indices()):
        path = tmp_path / "b" / ("-".join(map(str, index)) + ".nii")
        block, box = nibabel.load(path), grid.box(index)
        assert np.array_equal(np.asarray(block.dataobj), array[box.slices])
        assert np.allclose(block.affine[:, 3], affine @ [*box.start[:3], 1])
        assert np.allclose(block.affine[:, :3], affine[:, :3])
        assert bytes(block.header["descrip"]).rstrip(b"\0") == b"a volume"
        if not named:
            os.rename(path, tmp_path / "b" / ("x" * (number * 7 % 12 + 1) + ".nii"))
    if not named:
        os.remove(tmp_path / "b" / "reblock.json")
    reblock.merge(tmp_path / "b", tmp_path / "back.nii")
    assert (tmp_path / "back.nii").read_bytes() == (tmp_path / "a.nii").read_bytes()
