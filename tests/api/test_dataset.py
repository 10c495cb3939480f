"""Datasets in Python, and `info` of files and groups with several arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import reblock
from reblock.api import Array, Dataset
from reblock.cli.application import application
from reblock.errors import FormatError, UsageError


@pytest.fixture
def path(tmp_path: Path) -> str:
    group = zarr.create_group(tmp_path / "all.zarr", attributes={"title": "everything"})
    group.create_array("t2m", data=np.arange(12.0).reshape(3, 4), chunks=(2, 2), dimension_names=["time", "x"])
    group.create_array("ocean/sst", data=np.arange(6, dtype="i2"), attributes={"units": "K"})
    group.create_group("ocean/empty")
    return str(tmp_path / "all.zarr")


def test_a_dataset_is_a_mapping_of_arrays(path: str) -> None:
    dataset = reblock.open_dataset(path)
    assert isinstance(dataset, Dataset)
    assert sorted(dataset) == ["ocean/sst", "t2m"]
    assert len(dataset) == 2
    assert "t2m" in dataset
    assert "ocean" not in dataset
    assert dataset.attributes == {"title": "everything"}
    assert set(dataset.groups) == {"ocean", "ocean/empty"}
    assert dataset.dimensions == {"time": 3, "x": 4}
    assert not dataset.tables
    array = dataset["t2m"]
    assert isinstance(array, Array)
    assert array[1, 1:3].tolist() == [5, 6]
    assert {name: one.shape for name, one in dataset.arrays.items()} == {"t2m": (3, 4), "ocean/sst": (6,)}
    assert "2 arrays" in repr(dataset)


def test_a_group_is_a_dataset(path: str) -> None:
    for ocean in (reblock.open_dataset(path)["ocean"], reblock.open_dataset(f"{path}::ocean")):
        assert isinstance(ocean, Dataset)
        assert list(ocean) == ["sst"]
        assert ocean.groups == ("empty",)
        found = ocean["/sst/"]
        assert isinstance(found, Array)
        assert found[:].tolist() == list(range(6))
        assert {name: one[2] for name, one in ocean.arrays.items()} == {"sst": 2}
        assert "sst" in ocean.tree()
        assert "ocean" in repr(ocean)


def test_errors_name_the_arrays(path: str) -> None:
    dataset = reblock.open_dataset(path)
    with pytest.raises(UsageError, match=r"no array 'nothing'.*'t2m'"):
        dataset["nothing"]
    with pytest.raises(UsageError, match="it is empty"):
        dataset["ocean/empty"]["x"]  # type: ignore[index]
    with pytest.raises(FormatError, match=r"name one of its arrays.*t2m"):
        reblock.open(path)
    with pytest.raises(FormatError, match="array, not a group"):
        reblock.open_dataset(f"{path}::t2m")
    with pytest.raises(UsageError, match="no table"):
        dataset.read_table("t2m")


def test_the_tree_as_text(path: str) -> None:
    lines = reblock.open_dataset(path).tree().splitlines()
    assert lines[0] == path
    assert any(line.split() == ["t2m", "(time=3,", "x=4)", "float64", "chunks", "2,2,", "zstd:0"] for line in lines), (
        lines
    )
    assert any("/ocean/empty" in line for line in lines)
    assert any(line.split() == ["title", "everything"] for line in lines)


def test_info_of_a_group(path: str) -> None:
    described = reblock.info(path)
    assert described["arrays"].keys() == {"t2m", "ocean/sst"}
    assert described["groups"].keys() == {"", "ocean", "ocean/empty"}
    assert described["groups"][""]["dimensions"]["x"] == {"length": 4, "unlimited": False}
    for name, one in described["arrays"].items():
        alone = reblock.info(f"{path}::{name}")
        assert one == {key: alone[key] for key in one}
        assert one.keys() >= {"shape", "dtype", "chunks", "codec", "fill_value", "axes", "digest", "attributes"}
    found = CliRunner().invoke(application, ["info", path, "--json"])
    assert found.exit_code == 0
    assert json.loads(found.stdout) == described
    shown = CliRunner().invoke(application, ["info", path])
    assert shown.exit_code == 0
    assert "/ocean" in shown.stdout
    assert reblock.info(f"{path}::ocean")["dtype"] == "<i2", "a group with one array is that array"


def test_info_of_an_empty_group(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "empty.zarr")
    described = reblock.info(tmp_path / "empty.zarr")
    assert described["arrays"] == {}
    shown = CliRunner().invoke(application, ["info", str(tmp_path / "empty.zarr")])
    assert shown.exit_code == 0
    assert "arrays 0" in " ".join(shown.stdout.split())
