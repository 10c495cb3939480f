"""Zarr hierarchies of other programs, and ours as other programs read them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from reblock.errors import FormatError, UsageError
from reblock.model.dataset import Dimension, GroupSchema, Tree
from reblock.model.medium import Medium
from reblock.model.schema import Record, Schema
from reblock.storage import registry
from reblock.storage.media.local import LOCAL
from reblock.storage.zarr.format import FORMAT, FORMAT2
from reblock.testing.arrays import noise
from reblock.testing.reference_io import read_array, write_array
from reblock.testing.sample_trees import small_tree

#: zarr-python warns that consolidated metadata is not in the specification of v3.
pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata")
VERSIONS = pytest.mark.parametrize("version", [2, 3])


def make(path: str, tree: Tree, version: int, medium: Medium = LOCAL) -> tuple[Tree, dict[str, Any]]:
    """A hierarchy of random elements."""
    kind = FORMAT if version == 3 else FORMAT2
    adapted = kind.adapt_tree(tree, ())
    elements = {name: noise(one.shape, one.dtype) for name, one in adapted.arrays.items()}
    kind.create_tree(path, "", adapted, medium=medium)
    for name, schema in adapted.arrays.items():
        store = kind.reopen(path, name, schema, medium=medium)
        write_array(store, elements[name])
        store.commit(Record(digest="rb1-0123456789"))
    kind.commit_tree(path, "", adapted, {}, Record(digest="rb1-abcdef0123", job="7"), medium=medium)
    return adapted, elements


@VERSIONS
def test_zarr_python_reads_the_hierarchy(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "all.zarr")
    adapted, elements = make(path, small_tree(), version)
    for consolidated in (True, False):
        group = zarr.open_group(path, mode="r", use_consolidated=consolidated)
        assert (group.metadata.consolidated_metadata is not None) == consolidated
        found = dict(group.members(max_depth=None))
        assert set(found) == {*adapted.arrays, *adapted.groups} - {""}
        for name, expected in elements.items():
            assert np.array_equal(found[name][...], expected)
        assert dict(group.attrs) == {"title": "all", "version": 3}
        assert dict(found["deep/er/none"].attrs) == {"note": "no array is here"}


@VERSIONS
def test_consolidated_metadata_is_that_of_zarr_python(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "all.zarr")
    make(path, small_tree(), version)
    ours = zarr.open_consolidated(path, mode="r").metadata.consolidated_metadata
    zarr.consolidate_metadata(path)
    theirs = zarr.open_consolidated(path, mode="r").metadata.consolidated_metadata
    assert ours is not None
    assert theirs is not None
    one, two = (c.flattened_metadata for c in (ours, theirs))
    assert one.keys() == two.keys()
    for name in one:
        a, b = (dict(c[name].to_dict()) for c in (one, two))
        for document in (a, b):
            document.pop("reblock", None)
            if version == 2:  # zarr-python 3 adds a member that v2 does not have
                document.pop("consolidated_metadata", None)
        assert a == b


@VERSIONS
def test_xarray_reads_the_hierarchy(tmp_path: Path, version: int) -> None:
    xarray = pytest.importorskip("xarray")
    path = str(tmp_path / "all.zarr")
    _, elements = make(path, small_tree(), version)
    with xarray.open_zarr(path, consolidated=True, mask_and_scale=False, decode_times=False) as found:
        assert dict(found.sizes) == {"time": 6, "x": 4}
        assert list(found.coords) == ["time"]
        assert np.array_equal(found["t2m"], elements["t2m"])
    with xarray.open_zarr(path, group="deep/er", mask_and_scale=False, decode_times=False) as found:
        assert dict(found.sizes) == {"time": 6, "y": 5}


@VERSIONS
def test_a_dataset_of_xarray(tmp_path: Path, version: int) -> None:
    xarray = pytest.importorskip("xarray")
    path = str(tmp_path / "x.zarr")
    given = xarray.Dataset(
        {"t": (("time", "x"), np.arange(12.0).reshape(3, 4), {"units": "K"}), "n": ((), 5)},
        coords={"time": np.arange(3), "x": np.arange(4) * 1.5},
        attrs={"title": "t", "many": [1, 2]},
    )
    given.to_zarr(path, zarr_format=version, consolidated=True)
    given.to_zarr(path, group="more/inside", zarr_format=version, mode="a")
    found = registry.open_tree(path)
    assert found.format == ("zarr" if version == 3 else "zarr2")
    assert set(found.tree.arrays) >= {"t", "n", "time", "more/inside/t", "more/inside/n"}
    assert found.tree.arrays["t"].axes == ("time", "x")
    assert found.tree.groups[""].attributes == {"title": "t", "many": [1, 2]}
    assert found.tree.groups[""].dimensions["time"] == Dimension(3)
    assert np.array_equal(read_array(found.array("more/inside/t")), given["t"])
    assert list(FORMAT.tree_strangers(path, found.tree)) == []


@VERSIONS
def test_consolidated_metadata_that_is_out_of_date(tmp_path: Path, version: int) -> None:
    """Nodes are read from their own files, whatever the copy says."""
    path = str(tmp_path / "all.zarr")
    make(path, small_tree(), version)
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    group.create_array("new", shape=(3,), dtype="i4", chunks=(2,))
    group["t2m"].attrs["later"] = "yes"
    del group["deep/count"]
    found = registry.open_tree(path).tree
    assert "new" in found.arrays
    assert "deep/count" not in found.arrays
    assert found.arrays["t2m"].attributes["later"] == "yes"


@VERSIONS
@pytest.mark.parametrize(
    "joint",
    [[], {"metadata": 3, "reblock": []}, {"metadata": {"t2m": None, "../x": {}}, "reblock": {"groups": {"": 3}}}, "x"],
)
def test_hostile_consolidated_metadata(tmp_path: Path, version: int, joint: Any) -> None:
    path = str(tmp_path / "all.zarr")
    make(path, small_tree(), version)
    file = os.path.join(path, "zarr.json" if version == 3 else ".zmetadata")
    with open(file) as stream:
        document = json.load(stream)
    with open(file, "w") as stream:
        json.dump({**document, "consolidated_metadata": joint} if version == 3 else joint, stream)
    found = registry.open_tree(path).tree
    assert set(found.arrays) == set(small_tree().arrays)


@VERSIONS
def test_hostile_dimensions_are_ignored(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "all.zarr")
    make(path, small_tree(), version)
    file = os.path.join(path, "zarr.json" if version == 3 else ".zmetadata")
    with open(file) as stream:
        document = json.load(stream)
    joint = document["consolidated_metadata"] if version == 3 else document
    joint["reblock"]["groups"][""]["dimensions"] = {
        "time": -1,
        "x": [4],
        "odd": "3",
        "far": 2**70,
        "y": True,
        "z": [[2]],
    }
    with open(file, "w") as stream:
        json.dump(document, stream)
    assert registry.open_tree(path).tree.groups[""].dimensions == {
        "x": Dimension(4, unlimited=True),
        "time": Dimension(6),
    }


@VERSIONS
def test_unlimited_axes_and_order_are_kept(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "all.zarr")
    one = Schema((2,), np.dtype("i4"), (2,), axes=("t",))
    tree = Tree(
        {"": GroupSchema({}, {"t": Dimension(2, unlimited=True), "unused": Dimension(9)})},
        {"z": one, "a": one, "m/z": one, "m/a": one, "k/x": one},
    )
    make(path, tree, version)
    found = registry.open_tree(path)
    assert found.tree.groups[""].dimensions == tree.groups[""].dimensions
    assert list(found.tree.arrays) == ["z", "a", "m/z", "m/a", "k/x"]
    assert found.record == Record(digest="rb1-abcdef0123", job="7")


def test_links_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "all.zarr"
    make(str(path), small_tree(), 3)
    os.symlink(path, path / "deep" / "loop")
    os.symlink(tmp_path, path / "outside")
    found = registry.open_tree(path)
    assert set(found.tree.arrays) == set(small_tree().arrays)
    assert any("deep/loop" in note for note in found.tree.notes)
    assert sorted(FORMAT.tree_strangers(str(path), found.tree)) == ["deep/loop", "outside"]


def test_folders_without_metadata(tmp_path: Path) -> None:
    """Arrays below them are found; empty ones are no groups."""
    path = tmp_path / "all.zarr"
    make(str(path), small_tree(), 2)
    os.unlink(path / "deep" / ".zgroup")
    os.mkdir(path / "nothing")
    found = registry.open_tree(path)
    assert {"deep/count", "deep/er/t2m"} <= set(found.tree.arrays)
    assert "deep" in found.tree.groups
    assert "nothing" not in found.tree.groups
    assert list(FORMAT.tree_strangers(str(path), found.tree)) == ["nothing"]


@VERSIONS
def test_arrays_that_cannot_be_read_are_listed(tmp_path: Path, version: int) -> None:
    path = tmp_path / "all.zarr"
    make(str(path), small_tree(), version)
    name = "zarr.json" if version == 3 else ".zarray"
    (path / "t2m" / name).write_text("{")
    (path / "deep" / "count" / name).write_text('{"zarr_format": 9, "node_type": "array", "shape": [4]}')
    found = registry.open_tree(path).tree
    assert set(found.tables) == {"t2m", "deep/count"}
    assert all(table.why for table in found.tables.values())
    assert found.tables["deep/count"].shape == (4,)
    assert len(found.arrays) == 3


def test_one_array_is_no_dataset(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=(3,), dtype="i4")
    with pytest.raises(FormatError, match="array, not a group"):
        registry.open_tree(tmp_path / "a.zarr")
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(UsageError, match="one array"):
        registry.open_tree(tmp_path / "a.npy")


def test_nesting_has_a_limit(tmp_path: Path) -> None:
    deep = tmp_path / "all.zarr" / "/".join(["d"] * 100)
    zarr.create_group(tmp_path / "all.zarr")
    os.makedirs(deep)
    with pytest.raises(FormatError, match="deeper than 64"):
        registry.open_tree(tmp_path / "all.zarr")


@pytest.mark.slow
@pytest.mark.parametrize("many", [10, pytest.param(100, marks=pytest.mark.faults)])
def test_many_nodes(tmp_path: Path, many: int) -> None:
    """Thousands of nodes are listed; among the faults a hundred thousand."""
    path = tmp_path / "all.zarr"
    group = json.dumps({"zarr_format": 3, "node_type": "group"})
    for outer in range(many):
        for inner in range(1000):
            folder = path / str(outer) / str(inner)
            os.makedirs(folder)
            (folder / "zarr.json").write_text(group)
    (path / "zarr.json").write_text(group)
    assert len(registry.open_tree(path).tree.groups) == many * 1001 + 1
