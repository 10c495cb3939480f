"""An attempt: what it finds before it begins, what it says about it, and that looking touches nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock import api
from reblock.errors import LockedError, TargetExistsError, UnfinishedError

HOW: dict[str, Any] = {"chunks": "8,8,8", "memory": "96KiB", "device": "nvme"}


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(7).integers(0, 2**32, (32, 40, 24), "u4"))


def stop_half_way(target: str, **options: Any) -> None:
    enough = threading.Event()

    def progress(done: int, whole: int) -> None:
        if done >= whole // 2:
            enough.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reblock.run(reblock.plan("x.npy", target, **HOW), progress=progress, cancelled=enough.is_set, **options)


def everything() -> dict[str, tuple[int, int]]:
    """All files and folders, with their inodes and times."""
    found = [os.path.join(base, name) for base, folders, files in os.walk(".") for name in (*folders, *files)]
    return {path: (os.stat(path).st_ino, os.stat(path).st_mtime_ns) for path in found}


def test_looking_at_an_unfinished_run_says_how_far_it_is_and_touches_nothing() -> None:
    stop_half_way("y.zarr")
    before = everything()
    (note,) = [one for one in api.check(reblock.plan("x.npy", "y.zarr", **HOW)) if "resume" in one]
    assert "write boxes are finished" in note
    assert everything() == before


def test_looking_at_a_complete_target_says_that_there_is_nothing_to_do() -> None:
    reblock.repartition("x.npy", "y.zarr", **HOW)
    before = everything()
    job = reblock.plan("x.npy", "y.zarr", **HOW)
    assert any("the same job had made it" in note for note in api.check(job, exist_ok=True))
    with pytest.raises(TargetExistsError, match=r"y\.zarr exists"):
        api.check(job)
    assert everything() == before


def test_a_run_that_continues_reports_the_boxes_that_it_found() -> None:
    stop_half_way("y.zarr")
    report = reblock.repartition("x.npy", "y.zarr", **HOW)
    whole = reblock.repartition("x.npy", "z.zarr", **HOW)
    assert report.resumed_boxes > 0
    assert report.resumed_boxes + report.write_boxes == whole.write_boxes
    assert report.digest == whole.digest
    assert sorted(os.listdir()) == ["x.npy", "y.zarr", "z.zarr"]


def test_another_problem_is_refused_with_the_difference_and_a_way_out() -> None:
    stop_half_way("y.zarr")
    before = everything()
    with pytest.raises(UnfinishedError, match=r"target\.chunks was \[8, 8, 8\], is \[4, 8, 8\].*clean\('y\.zarr'\)"):
        reblock.repartition("x.npy", "y.zarr", **{**HOW, "chunks": "4,8,8"})
    assert everything() == before


def test_two_attempts_on_one_target_exclude_each_other() -> None:
    job = reblock.plan("x.npy", "y.zarr", **HOW)
    refused: list[LockedError] = []

    def progress(done: int, whole: int) -> None:
        if not refused and done:
            with pytest.raises(LockedError) as caught:
                reblock.repartition("x.npy", "y.zarr", **HOW)
            refused.append(caught.value)

    reblock.run(job, progress=progress)
    assert len(refused) == 1
    assert reblock.verify("x.npy", "y.zarr", reader="library").equal


def test_an_attempt_that_fails_before_its_first_box_leaves_nothing() -> None:
    job = reblock.plan("x.npy", "y.zarr", **HOW)
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, cancelled=lambda: True)
    assert os.listdir() == ["x.npy"]


def test_what_others_put_into_the_staging_folder_stays_and_is_named() -> None:
    stop_half_way("y.zarr")
    (folder,) = [name for name in os.listdir() if name not in ("x.npy", "y.zarr")]
    stranger = Path(folder, "notes.txt")
    stranger.write_text("keep me")
    report = reblock.repartition("x.npy", "y.zarr", **HOW)
    assert any("was not made by reblock" in note for note in report.notes)
    assert stranger.read_text() == "keep me"
