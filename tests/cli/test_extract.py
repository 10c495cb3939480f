"""`extract`: the command line of regions of interest."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import reblock

Call = Callable[..., Result]
Ask = Callable[..., Any]


@pytest.fixture
def source(here: Path) -> np.ndarray[Any, Any]:
    data = np.random.default_rng(4).integers(0, 99, (30, 20, 10)).astype("i2")
    reblock.repartition(data, "a b.zarr", chunks=(8, 8, 8), codec="zstd:1")
    return data


def test_what_is_printed(call: Call, ask: Ask, source: np.ndarray[Any, Any]) -> None:
    told = call("extract", "a b.zarr", "r.zarr", "--region", "3:9,:,:", "--sphere", "9,9,4,3.5")
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("r.zarr: 2 regions\n  read ")
    document = ask("extract", "a b.zarr", "t.csv", "--sphere", "9,9,4,3.5", "--as", "table")
    assert document["regions"] == [{"name": "sphere_0", "start": [6, 6, 1], "stop": [13, 13, 8]}]
    assert document["measured"]["objects"] == document["predicted"]["objects"] == 4
    assert document["statistics"][0]["count"] == 179
    assert np.array_equal(reblock.open("r.zarr::region_0")[...], source[3:9])
    assert call("extract", "a b.zarr", "p.npy", "--region", "3:9,:,:").exit_code == 0
    assert np.array_equal(np.load("p.npy"), source[3:9])


def test_options_of_object_stores(call: Call, source: np.ndarray[Any, Any]) -> None:
    for words in (["extract", "a b.zarr", "p.npy", "--region", "3:9,:,:"], ["replicas", "create", "a b.zarr", "r"]):
        assert "--storage-option is KEY=VALUE" in call(*words, "--storage-option", "secret").output


def test_a_dry_run_writes_nothing(ask: Ask, source: np.ndarray[Any, Any]) -> None:
    for words in (["x.zarr"], ["x.npz", "--as", "values"], ["x.csv", "--as", "table"]):
        both = ["--region", "3:9,:,:", "--sphere", "9,9,4,3.5", "--dry-run"]
        document = ask("extract", "a b.zarr", *words, *both)
        assert document["predicted"]["objects"] > 0
        assert document["measured"]["objects"] == 0
    assert os.listdir(".") == ["a b.zarr"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x.zarr"], "no regions: give --region, --sphere, --spheres or --mask"),
        (["x.npy", "--sphere", "1,1,1,1", "--sphere", "5,5,5,1"], "or ask for --as table"),
        (["x.txt", "--sphere", "1,1,1,1", "--as", "table"], "a table ends in .csv, .npz, .parquet"),
        (["x.csv::y", "--sphere", "1,1,1,1", "--as", "table"], "leave out ::y"),
        (["a b.zarr", "--sphere", "1,1,1,1", "--sphere", "5,5,5,1"], "overlap"),
        (["x.csv", "--sphere", "1,1,1,1", "--as", "chart"], "--as must be array, table or values"),
        (["nowhere/x.csv", "--sphere", "1,1,1,1", "--as", "table"], "nowhere"),
        (["x.zarr", "--sphere", "9,9,5,9", "--sphere", "5,5,5,1", "--memory", "40KiB"], "needs at least"),
    ],
)
def test_failures_are_one_line_and_leave_nothing(
    call: Call, source: np.ndarray[Any, Any], words: list[str], said: str
) -> None:
    done = call("extract", "a b.zarr", *words)
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.listdir(".") == ["a b.zarr"]


def test_a_damaged_chunk_leaves_nothing(call: Call, source: np.ndarray[Any, Any]) -> None:
    Path("a b.zarr/c/1/1/0").write_bytes(b"damage")
    for words in (["x.zarr"], ["x.npz", "--as", "values"], ["x.csv", "--as", "table"]):
        done = call("extract", "a b.zarr", *words, "--region", "3:9,:,:", "--sphere", "9,9,4,3.5")
        assert done.exit_code == 1
        assert "chunk (1,1,0)" in done.stderr
    assert os.listdir(".") == ["a b.zarr"]
