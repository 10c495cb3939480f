"""`split` and `merge`: the same elements come back, through every block format and after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import reblock

Call = Callable[..., Result]


@pytest.fixture
def array(here: Path) -> np.ndarray[Any, Any]:
    made = np.random.default_rng(1).integers(0, 60000, (50, 41, 30)).astype("<u2")
    np.save(here / "a.npy", made)
    return made


@pytest.mark.parametrize("kind", ["npy", "raw", "hdf5", "nii", "tif"])
@pytest.mark.parametrize("pattern", [None, "b_{2}_{0:03}_{1}.blk"])
def test_there_and_back(call: Call, here: Path, array: np.ndarray[Any, Any], kind: str, pattern: str | None) -> None:
    # nibabel goes by the ending.
    ending = "nii" if kind == "nii" else "blk"
    words = [] if pattern is None else ["--pattern", pattern.replace("blk", ending)]
    done = call("split", "a.npy", "blocks/", "--chunks", "16,16,16", "--block-format", kind, *words, "--quiet")
    assert done.exit_code == 0, done.output
    assert len(os.listdir("blocks")) == 4 * 3 * 2 + 1
    if pattern is not None:
        assert (here / "blocks" / f"b_1_003_2.{ending}").exists()
    done = call("merge", "blocks", "back.h5::/data", "--chunks", "50,41,4", "--quiet")
    assert done.exit_code == 0, done.output
    assert np.array_equal(reblock.open("back.h5::/data")[...], array)
    assert call("verify", "a.npy", "blocks", "--reader", "library").exit_code == 0


@pytest.mark.parametrize("strategy", ["naive", "baseline", "clustered", "multiple", "keep", "dra", "consolidate"])
def test_all_strategies_serve_both(call: Call, array: np.ndarray[Any, Any], strategy: str) -> None:
    made = "b_{0}_{1}_{2}.h5"
    how = ["--strategy", strategy, "--quiet", "--memory", "64MiB"]
    done = call("split", "a.npy", "b", "--chunks", "16,16,16", "--block-format", "h5", "--pattern", made, *how)
    assert done.exit_code == 0, done.output
    os.remove("b/reblock.json")
    done = call("merge", "b", "back.npy", *how)
    assert done.exit_code == 0, done.output
    assert np.array_equal(np.load("back.npy"), array)


@pytest.mark.parametrize(
    "words",
    [
        ["merge", "b", "x.npy", "--concat", "0"],
        ["merge", "b", "x.npy", "--include", "t2m"],
        ["split", "a.npy", "b", "--chunks", "9", "--skip-unsupported"],
    ],
)
def test_options_of_many_files_and_datasets_are_unknown(
    call: Call, array: np.ndarray[Any, Any], words: list[str]
) -> None:
    done = call(*words)
    assert done.exit_code == 2
    assert "No such option" in done.output


def test_words_that_cannot_be(call: Call, here: Path, array: np.ndarray[Any, Any]) -> None:
    np.save("b.npy", np.zeros(3))
    os.makedirs("empty")
    os.makedirs("mixed")
    for name in ("0.npy", "1.h5"):
        (here / "mixed" / name).write_bytes(b"")
    done = call("split", "a.npy", "b", "--chunks", "16", "--quiet")
    assert done.exit_code == 0
    for words, said in [
        (["split", "a.npy", "x", "--chunks", "9", "--pattern", "../{0}_{1}_{2}.npy"], "inside the folder"),
        (["split", "a.npy", "x", "--chunks", "9", "--pattern", "{0}.npy"], "names 1 axes, and the array has 3"),
        (["split", "a.npy", "x", "--chunks", "9", "--pattern", "{0.real}.npy"], "may stand in braces"),
        (["split", "a.npy", "x", "--chunks", "9", "--block-format", "zarr"], "cannot hold blocks"),
        (["split", "a.npy", "x", "--chunks", "9", "--block-format", "exe"], "not a format of block files"),
        (["split", "a.npy", "b", "--chunks", "9"], "b exists"),
        (["merge", "b.npy", "x.npy"], "is not a folder"),
        (["merge", "nothing", "x.npy"], "is not a folder"),
        (["merge", "empty", "x.npy"], "no files of a known format"),
        (["merge", "mixed", "x.npy"], "files of several formats"),
        (["merge", "b", "x.npy", "--pattern", "{0}.npy"], "has a manifest"),
    ]:
        done = call(*words, "--quiet")
        assert (done.exit_code, said in done.stderr, done.stderr.count("\n")) == (1, True, 1), (words, done.stderr)
        assert not os.path.exists("x")
        assert not os.path.exists("x.npy")
        assert not [name for name in os.listdir(".") if name.endswith(".reblock")]


def test_the_manifest_names_everything(call: Call, array: np.ndarray[Any, Any]) -> None:
    assert call("split", "a.npy", "b", "--chunks", "16,-1,30", "--block-format", "h5", "--quiet").exit_code == 0
    with open("b/reblock.json") as file:
        said = json.load(file)
    assert said["block_format"] == "hdf5"
    assert said["files"] == "{index}.h5"
    assert said["offsets"] == [[[2, 41, 30], 2048], [[16, 41, 30], 2048]]
    assert said["reblock_digest"].startswith("rb1-")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["split", "merge"])
def test_a_killed_run_goes_on(command: list[str], here: Path, how: str) -> None:
    """Killed at several moments, the same command ends with all elements."""
    array = np.random.default_rng(2).integers(0, 255, (256, 256, 256)).astype("u1")
    np.save("a.npy", array)
    words = ["split", "a.npy", "out", "--chunks", "16,16,16", "--pattern", "b_{0}_{1}_{2}.h5", "--block-format", "h5"]
    if how == "merge":
        reblock.split("a.npy", "b", chunks=16, block_format="h5")
        os.remove("b/reblock.json")
        words = ["merge", "b", "out", "--to", "zarr", "--codec", "gzip:6", "--chunks", "40,40,40"]
    for wait in (0.6, 0.9, 1.2, 1.5):
        run = subprocess.Popen([*command, *words, "--quiet"])
        time.sleep(wait)
        run.send_signal(signal.SIGKILL)
        if run.wait() == 0:
            break
    if not os.path.exists("out"):
        subprocess.run([*command, *words, "--quiet"], check=True)
    assert np.array_equal(reblock.open("out")[...], array)
    assert sorted(name for name in os.listdir(".") if name.startswith(".")) == []
