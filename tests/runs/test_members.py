"""Job arrays: members make one target together, in any order, whatever happens to each of them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result

import reblock
from reblock.cli.application import application
from reblock.errors import (
    InfeasibleError,
    Interrupted,
    LockedError,
    TargetExistsError,
    UnfinishedError,
    UsageError,
)
from reblock.model import Plan
from reblock.render import runs
from reblock.runs.adopt import Demands
from reblock.runs.group_commit import GroupCommit
from reblock.runs.member_attempt import MemberAttempt
from reblock.runs.members import ArrayMember
from reblock.runs.staging import Staging

DATA = np.random.default_rng(0).integers(0, 60000, (48, 60, 64), "<u2")
#: A strategy is named so that no time goes into the search for the best.
SMALL: dict[str, Any] = {"memory": "256KiB", "device": "nvme", "strategy": "clustered"}
ZARR: dict[str, Any] = {"chunks": (16, 20, 16), "codec": "zstd:1", **SMALL}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("members") / "x.npy"
    np.save(path, DATA)
    return path


@pytest.fixture(scope="module")
def digest(source: Path, tmp_path_factory: pytest.TempPathFactory) -> str | None:
    target = tmp_path_factory.mktemp("plain") / "y.zarr"
    return reblock.repartition(source, target, **ZARR).digest


def member(source: Path, target: object, task: str, **options: Any) -> Any:
    run = {name: options.pop(name) for name in ("cancelled", "overwrite", "exist_ok", "scratch") if name in options}
    return reblock.run(reblock.plan(source, str(target), **options), array_task=task, **run)


# ---------------------------------------------------------------- shares
@pytest.mark.parametrize("text", ["4/4", "5/4", "-1/4", "a/4", "1", "1/0", "1/2/3", "", "1.0/4", "0x1/4", "²/4"])
def test_what_is_no_member(source: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="array_task") as caught:
        member(source, tmp_path / "y.zarr", text, **ZARR)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("members", [1, 2, 3, 4, 7, 36, 100])
def test_each_task_is_of_one_member(source: Path, members: int) -> None:
    plans: list[Plan] = [
        reblock.plan(source, "y.zarr", chunks=chunks, strategy="naive", memory="4MiB").plan
        for chunks in ((16, 20, 16), (48, 60, 64), (24, 60, 64), (48, 60, 64))
    ]
    shares = [ArrayMember(number, members).shares(plans) for number in range(members)]
    for place, plan in enumerate(plans):
        tasks = [task for share in shares for task in share[place]]
        assert sorted(tasks) == list(range(plan.passes[-1].tasks.count))
        sizes = [len(share[place]) for share in shares]
        assert max(sizes) - min(sizes) <= 1
    # Arrays of few tasks do not all fall to one member.
    few = [sum(len(share[place]) for place in (1, 2, 3)) for share in shares]
    assert max(few) - min(few) <= max(1, 4 // members)


TARGETS: list[tuple[str, dict[str, Any]]] = [
    ("a.zarr", ZARR),
    ("b.npy", {"transpose": (2, 1, 0), "memory": "256KiB"}),
    ("c.h5", {"chunks": (16, 20, 16), "codec": "none", **SMALL}),
    ("d.zarr", {"chunks": (8, 10, 8), "codec": "none", "shards": (16, 20, 16), **SMALL}),
    ("e/", {"chunks": (13, 17, 19), **SMALL}),
    ("f.nii", {"memory": "256KiB"}),
]


@pytest.mark.parametrize(("name", "wanted"), TARGETS)
def test_the_same_target_as_one_process_makes(source: Path, tmp_path: Path, name: str, wanted: dict[str, Any]) -> None:
    plain = reblock.repartition(source, f"{tmp_path}/p-{name}", **wanted)
    target = f"{tmp_path}/{name}"
    for number in (2, 0, 3):
        report = member(source, target, f"{number}/4", **wanted)
        assert not report.array_task["published"]
        assert report.digest is None
        assert not os.path.exists(target)
    report = member(source, target, "1/4", **wanted)
    assert report.array_task["published"]
    assert report.digest == plain.digest
    assert reblock.verify(f"{tmp_path}/p-{name}", target, reader="library").equal
    assert sorted(os.listdir(tmp_path)) == sorted([name.strip("/"), f"p-{name}".strip("/")])


def test_shares_are_parts_of_the_whole(source: Path, tmp_path: Path) -> None:
    reports = [member(source, tmp_path / "y.zarr", f"{number}/4", **ZARR) for number in range(4)]
    tasks = [report.array_task for report in reports]
    assert sum(one["tasks"] for one in tasks) == tasks[0]["all_tasks"]
    assert [one["unfinished_members"] for one in tasks] == [[1, 2, 3], [2, 3], [3], []]
    assert sum(report.write_boxes for report in reports) == 36
    assert sum(report.measured.bytes_written for report in reports) == reports[0].predicted.bytes_written


@pytest.mark.parametrize("shape", [(), (0,), (4, 0, 5), (1,)])
def test_hardly_any_elements(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "x.npy", np.ones(shape, ">f4"))
    for number in range(3):
        report = member(tmp_path / "x.npy", tmp_path / "y.zarr", f"{number}/3")
    assert report.array_task["published"]
    assert np.array_equal(reblock.open(tmp_path / "y.zarr")[...], np.ones(shape))
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.zarr"]


def test_a_dataset(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for number in range(5):
            file[f"g/a{number}"] = DATA[: 10 * (number + 1)]
        file["words"] = np.array([b"one", b"two"], h5py.string_dtype())
        file["g"].attrs["unit"] = "K"
    plain = reblock.repartition(tmp_path / "x.h5", tmp_path / "p.zarr", memory="1MiB")
    reports = [member(tmp_path / "x.h5", tmp_path / "y.zarr", f"{n}/3", memory="1MiB") for n in range(3)]
    assert [one.array_task["published"] for one in reports] == [False, False, True]
    assert reports[-1].digest == plain.digest
    assert all(one.write_boxes for one in reports)
    assert reblock.verify(tmp_path / "x.h5", tmp_path / "y.zarr").equal


# ---------------------------------------------------------------- what goes wrong
@pytest.fixture
def begun(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of four members, of which two are done, and one was stopped."""
    target = tmp_path / "y.zarr"
    for number in (0, 1):
        member(source, target, f"{number}/4", **ZARR)
    with monkeypatch.context() as patched:
        # All its boxes are finished, but nothing says that it has ended.
        patched.setattr(GroupCommit, "note", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(Interrupted, match="continues this share"):
            member(source, target, "2/4", **ZARR)
    return target


def test_status_shows_each_member(begun: Path) -> None:
    found = reblock.status(begun)
    assert found is not None
    assert [one.state for one in found.members] == ["done", "done", "stopped", "waiting"]
    assert found.finished_boxes == sum(one.finished_boxes for one in found.members)
    assert sum(one.tasks for one in found.members) > 0
    assert found.to_json()["members"][3]["state"] == "waiting"
    shown = runs.unfinished("y.zarr", found.to_json())
    assert "4: 2 done (0, 1); 1 stopped (2) with" in shown
    assert "1 waiting (3)" in " ".join(shown.split())
    with Staging(str(begun)).workspace.segment(2):
        found = reblock.status(begun)
        assert found is not None
        assert (found.state, found.members[2].state) == ("running", "running")
        assert f"process {os.getpid()}" in (found.members[2].running or "")


def test_a_stopped_member_continues(source: Path, begun: Path, digest: str | None) -> None:
    report = member(source, begun, "2/4", **ZARR)
    assert report.resumed_boxes > 0
    assert report.array_task["unfinished_members"] == [3]
    assert member(source, begun, "3/4", **ZARR).digest == digest


def test_a_member_that_is_started_again_does_nothing_twice(source: Path, begun: Path) -> None:
    report = member(source, begun, "0/4", **ZARR)
    assert report.write_boxes == 0
    assert report.resumed_boxes > 0
    assert not report.array_task["published"]


def test_resume_does_the_rest_alone(source: Path, begun: Path, digest: str | None) -> None:
    report = reblock.resume(begun)
    assert report is not None
    assert report.digest == digest
    assert report.resumed_boxes > 0
    # The members that come late find the target made.
    late = member(source, begun, "3/4", **ZARR)
    assert late.array_task["published"]
    assert late.digest == digest
    assert os.listdir(begun.parent) == ["y.zarr"]


def test_a_member_after_a_resume_that_was_stopped(
    source: Path, begun: Path, monkeypatch: pytest.MonkeyPatch, digest: str | None
) -> None:
    """What it had absorbed is not done again."""
    with monkeypatch.context() as patched:
        patched.setattr("reblock.runs.making.execute_plan", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(Interrupted):
            reblock.resume(begun)
    report = member(source, begun, "2/4", **ZARR)
    assert report.resumed_boxes > 0
    assert member(source, begun, "3/4", **ZARR).digest == digest


def test_nobody_else_works_beside_members(source: Path, begun: Path) -> None:
    with Staging(str(begun)).workspace.segment(2):
        for work in (reblock.resume, reblock.clean):
            with pytest.raises(LockedError, match="member 2"):
                work(begun)
        with pytest.raises(LockedError, match="member 2"):
            reblock.repartition(source, begun, **ZARR)
    reblock.clean(begun)
    assert os.listdir(begun.parent) == []


def test_the_same_member_twice_at_once(
    source: Path, begun: Path, monkeypatch: pytest.MonkeyPatch, digest: str | None
) -> None:
    monkeypatch.setattr("reblock.runs.member_attempt.PATIENCE_SECONDS", 0.1)
    with Staging(str(begun)).workspace.segment(2), pytest.raises(LockedError, match="being written by another run"):
        member(source, begun, "2/4", **ZARR)
    for number in (2, 3):
        report = member(source, begun, f"{number}/4", **ZARR)
    assert report.digest == digest


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        ("3/5", ZARR, "4 members, not of 5"),
        ("3/4", {**ZARR, "chunks": (16, 20, 32)}, "another problem"),
        ("3/4", {**ZARR, "codec": "none"}, "another problem"),
        ("3/4", {**ZARR, "memory": "40KiB"}, "of memory, not 40.0 KiB"),
    ],
)
def test_other_options_are_refused(source: Path, begun: Path, task: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        member(source, begun, task, **options)
    assert "\n" not in str(caught.value)
    found = reblock.status(begun)
    assert found is not None
    assert [one.state for one in found.members] == ["done", "done", "stopped", "waiting"]


def test_an_ordinary_run_has_no_members(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Staging, "publish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            reblock.repartition(source, tmp_path / "y.zarr", **ZARR)
    with pytest.raises(UnfinishedError, match="not a job array"):
        member(source, tmp_path / "y.zarr", "0/4", **ZARR)


def test_a_source_that_changed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DATA)
    member(tmp_path / "x.npy", tmp_path / "y.zarr", "0/2", **ZARR)
    np.save(tmp_path / "x.npy", DATA + 1)
    with pytest.raises(reblock.StorageError, match="changed"):
        member(tmp_path / "x.npy", tmp_path / "y.zarr", "1/2", **ZARR)
    assert not (tmp_path / "y.zarr").exists()


def test_a_finished_chunk_that_was_damaged_is_done_again(source: Path, tmp_path: Path, digest: str | None) -> None:
    target = tmp_path / "y.zarr"
    for number in range(3):
        member(source, target, f"{number}/4", **ZARR)
    chunk = next((tmp_path / ".y.zarr.reblock" / "array").glob("c/0/0/0"))
    chunk.write_bytes(b"damaged")
    assert member(source, target, "3/4", **ZARR).digest == digest
    assert reblock.verify(source, target).equal


@pytest.mark.parametrize("who", [0, 3, None])
def test_a_death_between_the_last_task_and_publishing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str | None, who: int | None
) -> None:
    target = tmp_path / "y.zarr"
    with monkeypatch.context() as patched:
        patched.setattr(MemberAttempt, "_conclude", lambda _: None)
        for number in range(4):
            member(source, target, f"{number}/4", **ZARR)
    assert not target.exists()
    report: Any = reblock.resume(target) if who is None else member(source, target, f"{who}/4", **ZARR)
    assert report.digest == digest
    assert os.listdir(tmp_path) == ["y.zarr"]


def test_members_that_end_at_the_same_moment(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str | None
) -> None:
    """One of them publishes, once, and all of them know."""
    count, published = 3, list[object]()
    barrier = Barrier(count)
    conclude, publish = MemberAttempt._conclude, Staging.publish

    def together(self: MemberAttempt) -> None:
        barrier.wait(60)
        conclude(self)

    monkeypatch.setattr(MemberAttempt, "_conclude", together)
    monkeypatch.setattr(Staging, "publish", lambda self: (published.append(self), publish(self)))
    for turn in range(3):
        reports = list[Any]()
        target = tmp_path / f"{turn}.zarr"

        def work(number: int, target: Path = target, reports: list[Any] = reports) -> None:
            reports.append(member(source, target, f"{number}/{count}", **ZARR))

        threads = [Thread(target=work, args=[number]) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one.array_task["published"] for one in reports] == [True] * count
        assert {one.digest for one in reports} == {digest}
        assert len(published) == turn + 1


# ---------------------------------------------------------------- what is refused, and what is planned otherwise
@pytest.mark.parametrize(("name", "options"), [("y.h5", {"codec": "gzip:1", "chunks": 16}), ("y.nii.gz", {})])
def test_targets_of_one_writer(source: Path, tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"only one process can write .*leave out array_task, or write zarr"):
        member(source, tmp_path / name, "0/4", **options)
    assert os.listdir(tmp_path) == []


def test_an_array_of_this_process_and_workers_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot open an object"):
        reblock.run(reblock.plan(DATA, tmp_path / "y.zarr"), array_task="0/2")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="leave out workers"):
        reblock.run(reblock.plan(source, tmp_path / "y.zarr"), array_task="0/2", workers=2)
    assert os.listdir(tmp_path) == []


def test_passes_that_wait_for_each_other_are_not_planned(source: Path, tmp_path: Path) -> None:
    job = reblock.plan(source, tmp_path / "y.zarr", chunks=(48, 60, 1), memory="64KiB", strategy="multipass")
    assert len(job.plan.passes) > 1
    with pytest.raises(UsageError, match="do not wait for each other"):
        reblock.run(job, array_task="0/2")
    # As if it were the best plan of all.
    job = replace(job, demands=Demands())
    for number in range(2):
        report = reblock.run(job, array_task=f"{number}/2")
    assert len(report.plan.passes) == 1
    assert report.array_task is not None
    assert report.array_task["published"]
    assert np.array_equal(reblock.open(tmp_path / "y.zarr")[...], DATA)


def test_passes_that_interleave_are_shared(tmp_path: Path) -> None:
    data = np.arange(44 * 40 * 48, dtype="<u4").reshape(44, 40, 48)
    np.save(tmp_path / "x.npy", data)
    options: dict[str, Any] = {
        "chunks": (44, 2, 2),
        "transpose": (2, 1, 0),
        "strategy": "multipass",
        "memory": 64 << 10,
    }
    job = reblock.plan(tmp_path / "x.npy", f"{tmp_path}/y/", **options)
    assert job.plan.interleaved
    for number in range(3):
        report = member(tmp_path / "x.npy", f"{tmp_path}/y/", f"{number}/3", **options)
    assert report.plan.interleaved
    assert report.array_task["published"]
    assert np.array_equal(reblock.open(f"{tmp_path}/y")[...], data.transpose(2, 1, 0))
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y"]


def test_too_little_memory_for_one_pass(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError):
        member(source, tmp_path / "y.zarr", "0/2", chunks=(48, 60, 64), memory="1KiB")
    assert os.listdir(tmp_path) == []


def test_an_existing_target(source: Path, tmp_path: Path, digest: str | None) -> None:
    np.save(tmp_path / "old.npy", DATA[:1])
    reblock.repartition(tmp_path / "old.npy", tmp_path / "y.zarr")
    with pytest.raises(TargetExistsError):
        member(source, tmp_path / "y.zarr", "0/2", **ZARR)
    member(source, tmp_path / "y.zarr", "0/2", overwrite=True, **ZARR)
    assert reblock.open(tmp_path / "y.zarr").shape == (1, 60, 64)
    assert member(source, tmp_path / "y.zarr", "1/2", overwrite=True, **ZARR).digest == digest
    # Started again, it does not make the target once more.
    assert member(source, tmp_path / "y.zarr", "1/2", overwrite=True, **ZARR).write_boxes == 0


def test_a_medium_of_keys(source: Path, memory_folder: str, digest: str | None) -> None:
    target = f"{memory_folder}/y.zarr"
    for number in (1, 2, 0):
        report = member(source, target, f"{number}/3", **ZARR)
    assert report.array_task["published"]
    assert report.digest == digest
    assert reblock.verify(source, target).equal
    assert reblock.status(target) is None


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No relative path of a test ends up in the project."""
    monkeypatch.chdir(tmp_path)


def test_the_command_line(source: Path, tmp_path: Path) -> None:
    def reblock_run(*words: str) -> Result:
        return CliRunner().invoke(application, [*words[:1], str(source), "y.zarr", "--chunks", "16,20,16", *words[1:]])

    planned = reblock_run("plan", "--array-task", "0/4", "--json", "--save", "p.json")
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["passes"][0]["tasks"] >= 4
    assert reblock_run("run", "--array-task", "0/4", "--dry-run", "--quiet").exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["p.json"]
    bad = reblock_run("run", "--array-task", "4/4")
    assert bad.exit_code == 1
    assert "i is from 0 to 3, not 4; number the tasks of a SLURM array 0-3" in bad.output
    for number in range(4):
        done = CliRunner().invoke(
            application, ["run", str(source), "y.zarr", "--plan", "p.json", "--array-task", f"{number}/4", "--json"]
        )
        assert done.exit_code == 0, done.output
        task = json.loads(done.stdout)["array_task"]
        assert (task["member"], task["published"]) == (number, number == 3)


# ---------------------------------------------------------------- after the end
@pytest.mark.parametrize(("name", "wanted"), TARGETS)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_member_that_is_started_again_after_the_end(
    source: Path, tmp_path: Path, name: str, wanted: dict[str, Any], overwrite: bool
) -> None:
    """A batch system may requeue a member whose work is published; formats without a record are compared."""
    target = f"{tmp_path}/{name}"
    for number in range(2):
        member(source, target, f"{number}/2", **wanted)
    before = reblock.verify(source, target, transpose=wanted.get("transpose"))
    assert before.equal
    report = member(source, target, "1/2", overwrite=overwrite, **wanted)
    assert report.array_task["published"]
    assert report.write_boxes == 0
    assert any("is already complete" in note for note in report.notes)
    assert os.listdir(tmp_path) == [name.strip("/")]


def test_a_target_that_holds_something_else_is_not_taken_for_complete(source: Path, tmp_path: Path) -> None:
    other = DATA.copy()
    other[-1, -1, -1] ^= 1
    np.save(tmp_path / "y.npy", other)
    # The first member's part is the same. The last one's is not.
    report = member(source, tmp_path / "y.npy", "0/2", memory="64KiB")
    assert report.array_task["published"]
    for kept in (other, other.astype("<u4"), other[:-1]):
        np.save(tmp_path / "y.npy", kept)
        with pytest.raises(TargetExistsError, match="does not say which job made it"):
            member(source, tmp_path / "y.npy", "1/2", memory="64KiB")
        assert np.array_equal(np.load(tmp_path / "y.npy"), kept)
    # Members that replace it agree that it is to be replaced.
    np.save(tmp_path / "y.npy", other)
    reports = [member(source, tmp_path / "y.npy", f"{number}/2", memory="64KiB", overwrite=True) for number in (0, 1)]
    assert [one.array_task["published"] for one in reports] == [False, True]
    assert np.array_equal(np.load(tmp_path / "y.npy"), DATA)


def test_the_command_of_a_member_that_is_started_again(source: Path, tmp_path: Path) -> None:
    words = ["run", str(source), str(tmp_path / "y.npy"), "--dtype", "i4", "--array-task"]
    for number in (0, 1, 0):
        found = CliRunner().invoke(application, [*words, f"{number}/2"])
        assert found.exit_code == 0, found.output
    assert "already complete" in " ".join(found.output.split())
    assert os.listdir(tmp_path) == ["y.npy"]
