"""Runs on a medium of keys, where nothing can be renamed: the metadata publishes the array."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import LockedError, StorageError, TargetExistsError, UsageError
from reblock.runs.staging import Staging
from reblock.storage.media.memory import MEMORY

NUMBERS = itertools.count()
VALUES = np.arange(24 * 20 * 16, dtype="i4").reshape(24, 20, 16)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", VALUES)
    where = f"memory://runs/{next(NUMBERS)}"
    yield where
    MEMORY.remove_folder(where)


def keys_below(folder: str) -> set[str]:
    """The first parts of all keys below a folder."""
    try:
        return {name for name, _ in MEMORY.entries(folder)}
    except FileNotFoundError:
        return set()


class StopError(Exception):
    """Raised by a test in the middle of a run."""


def stop_half_way(target: str, **options: Any) -> None:
    """Begin a run, and leave it when half of its elements are written."""

    def progress(done: int, whole: int) -> None:
        if done > whole * 0.6:
            raise StopError

    with pytest.raises(StopError):
        reblock.repartition("x.npy", target, progress=progress, **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("y.zarr", {"chunks": "5,7,16"}),
        ("y.zarr", {"chunks": "5,7,16", "codec": "none"}),
        ("y.zarr", {"chunks": "4,5,8", "shards": "8,10,16"}),
        ("y.zarr::a/b", {"chunks": "6,6,6"}),
        ("y", {"chunks": "5,7,16", "to_format": "zarr2"}),
        ("y/", {"chunks": "5,7,16"}),
        ("y", {"chunks": "5,7,16", "to_format": "rawblocks"}),
        ("y.npy", {"transpose": "2,0,1"}),
    ],
)
def test_runs_to_memory_and_back(folder: str, name: str, options: dict[str, Any]) -> None:
    report = reblock.repartition("x.npy", f"{folder}/{name}", **options)
    again = reblock.repartition(f"{folder}/{name}", "z.npy", transpose="1,2,0" if "transpose" in options else None)
    np.testing.assert_array_equal(np.load("z.npy"), VALUES)
    assert report.digest is not None
    if "transpose" not in options:
        assert again.digest == report.digest
    # Nothing of the run is left.
    assert not Staging(f"{folder}/{name.partition('::')[0]}").is_there
    assert reblock.verify("x.npy" if "transpose" not in options else "z.npy", "z.npy").equal


def test_passes_keep_their_scratch_below_the_target(folder: str) -> None:
    report = reblock.repartition("x.npy", f"{folder}/y.zarr", chunks="24,20,1", memory="24KiB", strategy="multipass")
    assert len(report.plan.passes) > 1
    np.testing.assert_array_equal(reblock.open(f"{folder}/y.zarr")[...], VALUES)
    assert keys_below(f"{folder}/y.zarr") == {"zarr.json", "c"}


def test_an_array_is_not_there_before_it_is_complete(folder: str) -> None:
    target = f"{folder}/y.zarr"
    stop_half_way(target, chunks="2,2,2", memory="40KiB")
    with pytest.raises(StorageError):
        reblock.open(target)
    found = reblock.status(target)
    assert found is not None
    assert found.state == "stopped"


def test_resumes(folder: str) -> None:
    target = f"{folder}/y.zarr"
    stop_half_way(target, chunks="2,2,2", memory="40KiB")
    report = reblock.resume(target)
    assert report.resumed_boxes > 0
    np.testing.assert_array_equal(reblock.open(target)[...], VALUES)
    assert keys_below(target) == {"zarr.json", "c"}
    assert reblock.status(target) is None


def test_clean_removes_an_unfinished_array(folder: str) -> None:
    target = f"{folder}/y.zarr"
    stop_half_way(target, chunks="2,2,2", memory="40KiB")
    assert reblock.clean(target)
    assert keys_below(target) == set()


def test_clean_leaves_a_finished_array(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"{folder}/y.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "remove", lambda self, **_: [])
        reblock.repartition("x.npy", target, chunks="5,7,16")
    found = reblock.status(target)
    assert found is not None
    assert found.state == "complete"
    reblock.clean(target)
    np.testing.assert_array_equal(reblock.open(target)[...], VALUES)
    assert keys_below(target) == {"zarr.json", "c"}


def test_a_complete_array_is_not_made_again(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"{folder}/y.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "remove", lambda self, **_: [])
        reblock.repartition("x.npy", target, chunks="5,7,16")
    report = reblock.repartition("x.npy", target, chunks="5,7,16")
    assert any("already complete" in note for note in report.notes)


def test_what_exists_is_replaced_only_on_request(folder: str) -> None:
    target = f"{folder}/y.zarr"
    reblock.repartition("x.npy", target, chunks="5,7,16")
    with pytest.raises(TargetExistsError):
        reblock.repartition("x.npy", target, chunks="6,6,6")
    report = reblock.repartition("x.npy", target, chunks="6,6,6", overwrite=True)
    assert any("removed before" in note for note in report.notes)
    assert reblock.open(target).chunks == (6, 6, 6)
    # No chunk of the old grid is left.
    assert keys_below(f"{target}/c") == {str(n) for n in range(4)}


def test_strangers_are_not_replaced(folder: str) -> None:
    target = f"{folder}/y.zarr"
    reblock.repartition("x.npy", target, chunks="5,7,16")
    MEMORY.write(f"{target}/notes.txt", [b"precious"])
    with pytest.raises(TargetExistsError, match="notes"):
        reblock.repartition("x.npy", target, chunks="6,6,6", overwrite=True)
    np.testing.assert_array_equal(reblock.open(target)[...], VALUES)


def test_one_run_for_one_target(folder: str) -> None:
    target = f"{folder}/y.zarr"
    with Staging(target), pytest.raises(LockedError, match="process"):
        reblock.repartition("x.npy", target, chunks="5,7,16")
    assert not Staging(target).is_there


def test_a_failure_before_the_first_box_leaves_the_old_array(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"{folder}/y.zarr"
    reblock.repartition("x.npy", target, chunks="5,7,16")

    def refuse(self: Any, folder: str, what: str) -> None:
        raise UsageError("no")

    monkeypatch.setattr(type(MEMORY), "check_folder", refuse)
    with pytest.raises(UsageError):
        reblock.repartition("x.npy", target, chunks="6,6,6", overwrite=True)
    np.testing.assert_array_equal(reblock.open(target)[...], VALUES)


def test_a_source_is_not_its_own_target(folder: str) -> None:
    target = f"{folder}/y.zarr"
    reblock.repartition("x.npy", target, chunks="5,7,16")
    for other in (target, f"{target}/inside.zarr"):
        with pytest.raises(UsageError, match="overlap"):
            reblock.repartition(target, other, chunks="6,6,6", overwrite=True)
