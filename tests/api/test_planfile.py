"""Plans saved to files run elsewhere as they were made, and are refused where they do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import ReblockError, UsageError


@pytest.fixture(autouse=True)
def bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(tmp_path)
    made = np.random.default_rng(3).integers(0, 2**16, (30, 40, 50), "u2")
    np.save("x.npy", made)
    return made


def saved(**options: Any) -> dict[str, Any]:
    job = reblock.plan("x.npy", "y.zarr", **{"chunks": "10,10,10", "memory": "1MiB", **options})
    reblock.save_plan(job, "p.json")
    found: dict[str, Any] = json.loads(Path("p.json").read_text())
    return found


def test_a_saved_plan_runs_as_it_was_made(bits: np.ndarray[Any, Any]) -> None:
    document = saved(transpose="2,1,0", region="0:20,:,:", codec="zstd:1")
    np.save("other.npy", bits)
    job = reblock.load_plan("p.json", "other.npy", "z.zarr")
    assert job.plan.to_json() == document["plan"]
    report = reblock.run(job)
    assert report.measured.seeks == report.predicted.seeks
    assert np.array_equal(reblock.open("z.zarr")[...], bits[:20].transpose(2, 1, 0))
    assert reblock.info("z.zarr")["chunks"] == [10, 10, 10]


def test_a_plan_file_names_no_path() -> None:
    assert "x.npy" not in json.dumps(saved())


def test_only_an_older_plan_is_replaced() -> None:
    saved()
    saved(memory="2MiB")
    Path("p.json").write_text("{}")
    with pytest.raises(UsageError, match="is not a plan file"):
        saved()
    assert Path("p.json").read_text() == "{}"


def test_a_plan_without_a_source_is_saved_but_not_run() -> None:
    job = reblock.plan(shape=(30, 40, 50), dtype="u2", source_chunks=(30, 40, 50), chunks=(10, 10, 10))
    reblock.save_plan(job, "p.json")
    with pytest.raises(UsageError, match="made from shapes alone"):
        reblock.load_plan("p.json", "x.npy", "z.zarr")


def test_a_plan_by_the_count_of_the_papers_is_not_saved() -> None:
    job = reblock.plan(shape=(4, 4), dtype="u1", source_chunks=(2, 2), chunks=(4, 1), memory_model="held")
    with pytest.raises(UsageError, match="counts all allocated memory"):
        reblock.save_plan(job, "p.json")


def test_a_plan_file_of_an_older_version_still_runs(bits: np.ndarray[Any, Any]) -> None:
    document = saved()
    del document["problem"]
    Path("p.json").write_text(json.dumps(document))
    reblock.run(reblock.load_plan("p.json", "x.npy", "z.zarr"))
    assert np.array_equal(reblock.open("z.zarr")[...], bits)
    with pytest.raises(UsageError, match="save it again"):
        reblock.simulate("p.json")


def test_another_source_or_target_is_refused() -> None:
    saved()
    np.save("small.npy", np.zeros((30, 40, 49), "u2"))
    np.save("wide.npy", np.zeros((30, 40, 50), "u4"))
    for source, target, says in (
        ("small.npy", "z.zarr", "another source: shape"),
        ("wide.npy", "z.zarr", "another source: dtype"),
        ("x.npy", "z.npy", "another target"),
    ):
        with pytest.raises(UsageError, match=says):
            reblock.load_plan("p.json", source, target)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(reblock_plan=2),
        lambda d: d.pop("plan"),
        lambda d: d.update(more=1),
        lambda d: d["request"].update(target="/etc/passwd"),
        lambda d: d["request"].update(memory="1MiB"),
        lambda d: d["request"].update(memory=1),
        lambda d: d["request"].update(chunks=[1, 2]),
        lambda d: d["request"].update(chunks="0,0,0"),
        lambda d: d["plan"].update(memory_bytes=-1),
        lambda d: d["plan"].update(memory_bytes=2**80),
        lambda d: d["plan"].update(strategy=5),
        lambda d: d["plan"].update(divided=True),
        lambda d: d["plan"]["passes"].append(d["plan"]["passes"][0]),
        lambda d: d["plan"]["passes"].clear(),
        lambda d: d["plan"]["passes"][0].update(read_chunks=[0, 1, 1]),
        lambda d: d["plan"]["passes"][0].update(write_chunks=[7, 10, 10]),
        lambda d: d["plan"]["passes"][0].update(write_chunks=[20, 40, 50]),
        lambda d: d["plan"]["passes"][0].update(task_chunks=[[10, 10], 40, 50]),
        lambda d: d["plan"]["passes"][0].update(read_access="everything"),
        lambda d: d["plan"]["passes"][0].update(execution=None),
        lambda d: d["plan"]["passes"][0]["execution"].update(readers=10**6),
        lambda d: d["plan"]["passes"][0]["execution"].update(units_in_flight=10**5, readers=1000),
        lambda d: d["plan"]["passes"][0]["execution"].update(buffer_bytes=0),
        lambda d: d["plan"]["passes"][0]["execution"].update(memory_bytes=2**40, buffer_bytes=2**39),
        lambda d: d["plan"]["passes"][0]["execution"].update(slab_axes=[0, 0]),
    ],
    ids=map(str, range(25)),
)
def test_a_spoiled_plan_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    document = saved()
    spoil(document)
    Path("p.json").write_text(json.dumps(document))
    with pytest.raises(ReblockError):
        reblock.run(reblock.load_plan("p.json", "x.npy", "z.zarr"))
    assert not Path("z.zarr").exists()
    assert not list(Path().glob(".z.zarr*"))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 100_000, '{"reblock_plan": 1' + " " * (17 << 20) + "}"], ids=map(str, range(5))
)
def test_what_is_no_plan_file_is_refused(text: str) -> None:
    Path("p.json").write_text(text)
    with pytest.raises(UsageError):
        reblock.load_plan("p.json", "x.npy", "z.zarr")


def test_a_missing_plan_file_is_named() -> None:
    with pytest.raises(ReblockError, match=r"nowhere\.json"):
        reblock.load_plan("nowhere.json", "x.npy", "z.zarr")
