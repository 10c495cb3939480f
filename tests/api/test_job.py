"""A job: what it says about itself before it runs."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock

HOW: dict[str, Any] = {"chunks": (8, 8, 8), "memory": "96KiB", "device": "nvme"}


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(32 * 40 * 24, dtype="u4").reshape(32, 40, 24))


def make(**options: Any) -> reblock.api.Job:
    job = reblock.plan("x.npy", "y.zarr", **HOW, **options)
    assert isinstance(job, reblock.api.Job)
    return job


def test_a_job_is_shown_in_one_line() -> None:
    job = make()
    assert repr(job).startswith(f"<reblock Job: x.npy → y.zarr, {job.plan.strategy}, {job.cost.seeks:,} seeks, ")
    assert "shapes → the same format" in repr(
        reblock.plan(shape=(8, 8), dtype="u1", source_chunks=(1, 8), chunks=(8, 1))
    )


def test_planning_touches_nothing() -> None:
    make().explain(everything=True)
    assert os.listdir() == ["x.npy"]


def test_its_document_describes_the_view_of_the_source() -> None:
    job = make(region="4:20,:,2:24", transpose="2,0,1")
    document = json.loads(json.dumps(job.to_json()))
    assert document["problem"]["region"] == [[4, 20], [0, 40], [2, 24]]
    assert document["problem"]["transpose"] == [2, 0, 1]
    assert document["cost"]["seeks"] == job.cost.seeks
    assert document["strategy"] == job.plan.strategy


def test_alternatives_that_nobody_asked_for_are_not_priced() -> None:
    job = make()
    few, every = (job.to_json(every_strategy=one)["alternatives"] for one in (False, True))
    assert {one["strategy"] for one in few} <= {one["strategy"] for one in every}
    assert {"baseline", "naive", "keep", "dra"} <= {one["strategy"] for one in every}


def test_notes_are_part_of_the_explanation_and_of_the_document() -> None:
    job = reblock.plan("x.npy", "y.h5::/d", **{**HOW, "memory": None})
    assert all(note in job.to_json()["notes"] for note in job.notes)
    assert "a note of a check" in job.explain(notes=["a note of a check"])


def test_a_job_can_go_to_another_process() -> None:
    job = pickle.loads(pickle.dumps(make()))
    assert reblock.run(job).digest == reblock.verify("x.npy", "y.zarr").source_digest


def test_a_plan_from_shapes_alone_cannot_be_run() -> None:
    job = reblock.plan(shape=(8, 8), dtype="u1", source_chunks=(1, 8), chunks=(8, 1))
    with pytest.raises(reblock.errors.UsageError, match="without a source or a target"):
        reblock.run(job)
