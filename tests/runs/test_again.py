"""The same again: a job that is done, half done, or was killed in its last step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from cases import find_journal
from reblock.api.recall import recalled
from reblock.errors import TargetExistsError, UnfinishedError, UsageError
from reblock.runs.journal import Journal
from reblock.runs.staging import Staging
from reblock.storage.media.file_log import FileLog
from tracing import STRACE, traces

MEMORY = 64 << 10
#: Targets with room for a record.
RECORDED: dict[str, dict[str, Any]] = {
    "y.zarr": {"chunks": "8,8,8"},
    "two.zarr": {"chunks": "8,8,8", "to_format": "zarr2"},
    "y.zarr::a/b": {"chunks": "8,8,8", "codec": "gzip:1"},
    "y.h5": {"chunks": "8,8,8"},
    "z.h5::a/b": {"chunks": "8,8,8", "codec": "gzip:1"},
    "y/": {"chunks": "8,8,8"},
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).standard_normal((32, 32, 32)))
    return tmp_path


def begin(target: str, *, at: float = 0.5, **options: Any) -> None:
    """A run that is stopped when a part of it is done."""
    run = {key: options.pop(key) for key in ("scratch", "overwrite") if key in options}
    job = reblock.plan("x.npy", target, **{"memory": MEMORY, **options})

    def progress(done: int, whole: int) -> None:
        if done >= at * whole:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=progress, **run)
    assert reblock.status(target) is not None


# ---------------------------------------------------------------- exist_ok
@pytest.mark.parametrize("target", RECORDED)
def test_the_same_job_again_is_done(target: str) -> None:
    options = {**RECORDED[target], "memory": MEMORY}
    first = reblock.repartition("x.npy", target, **options)
    with pytest.raises(TargetExistsError):
        reblock.repartition("x.npy", target, **options)
    # How it is done is not what is made.
    again = reblock.repartition("x.npy", target, **{**options, "memory": 8 * MEMORY}, exist_ok=True)
    assert again.write_boxes == 0
    assert again.digest == first.digest
    assert any("is already complete" in note for note in again.notes)


@pytest.mark.parametrize("target", ["y.zarr", "y.h5", "y/"])
@pytest.mark.parametrize(
    "other", [{"chunks": "8,8,4"}, {"region": "0:8,:,:"}, {"transpose": "2,1,0"}, {"dtype": "f4"}], ids=str
)
def test_another_job_is_refused(target: str, other: dict[str, str]) -> None:
    reblock.repartition("x.npy", target, chunks="8,8,8")
    with pytest.raises(TargetExistsError, match="another job made it"):
        reblock.repartition("x.npy", target, **{"chunks": "8,8,8", **other}, exist_ok=True)
    # With both, what is not the same is replaced.
    assert reblock.repartition(
        "x.npy", target, **{"chunks": "8,8,8", **other}, exist_ok=True, overwrite=True
    ).write_boxes


def test_another_source_is_refused() -> None:
    reblock.repartition("x.npy", "y.zarr")
    np.save("x.npy", np.zeros((32, 32, 32)))
    with pytest.raises(TargetExistsError, match="another job made it"):
        reblock.repartition("x.npy", "y.zarr", exist_ok=True)


def test_a_moved_target_is_still_the_same() -> None:
    reblock.repartition("x.npy", "y.zarr", chunks="8,8,8")
    os.rename("y.zarr", "z.zarr")
    assert reblock.repartition("x.npy", "z.zarr", chunks="8,8,8", exist_ok=True).write_boxes == 0


def test_where_there_is_no_room_for_a_record_it_is_refused() -> None:
    reblock.repartition("x.npy", "y.npy")
    with pytest.raises(TargetExistsError, match=r"\.npy file has no place"):
        reblock.repartition("x.npy", "y.npy", exist_ok=True)
    os.mkdir("f.zarr")
    with pytest.raises(TargetExistsError, match="cannot be read as zarr"):
        reblock.repartition("x.npy", "f.zarr", exist_ok=True)


# ---------------------------------------------------------------- the last step
@traces
@pytest.mark.parametrize(
    ("target", "overwrite"),
    [
        ("y.npy", False),
        pytest.param("y.npy", True, marks=pytest.mark.faults),
        pytest.param("y.zarr", False, marks=pytest.mark.faults),
        pytest.param("y.zarr", True, marks=pytest.mark.faults),
    ],
)
def test_killed_while_tidying_up(target: str, overwrite: bool) -> None:
    """Between publishing and the end, the same command says that all is done, and exits 0."""
    words = ["run", "x.npy", target, "--chunks", "32,32,32", "--json", *(["--overwrite"] if overwrite else [])]
    command = [sys.executable, "-m", "reblock", *words]
    calls = "unlink,unlinkat,rmdir,rename,renameat,renameat2"
    trace = [STRACE or "", "-f", "-qq", "-o", "log", "-e", f"trace={calls}"]
    np.save("other.npy", np.zeros(3))

    def reset() -> None:
        if os.path.lexists(target):
            shutil.rmtree(target) if os.path.isdir(target) else os.unlink(target)
        if overwrite:
            reblock.repartition("other.npy", target)

    reset()
    subprocess.run([*trace, *command], check=True, capture_output=True)
    lines = Path("log").read_text().splitlines()
    done = [n for n, line in enumerate(lines) if " rename" in line and f'"{target}"' in line][-1]
    killed = 0
    for name in calls.split(","):
        before = sum(f" {name}(" in line for line in lines[: done + 1])
        for count in range(before + 1, before + sum(f" {name}(" in line for line in lines[done + 1 :]) + 1):
            reset()
            inject = ["-e", f"inject={name}:signal=KILL:when={count}"]
            assert subprocess.run([*trace, *inject, *command], check=False, capture_output=True).returncode != 0
            again = subprocess.run(command, check=False, capture_output=True, text=True)
            assert again.returncode == 0, (name, count, again.stderr)
            assert "is already complete" in again.stdout
            assert np.array_equal(reblock.open(target)[...], np.load("x.npy"))
            assert not [entry for entry in os.listdir() if entry.startswith(".")]
            killed += 1
    assert killed >= 3


# ---------------------------------------------------------------- resume
@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("y.zarr", {"chunks": (8, 4, 8), "shards": (8, 8, 8), "codec": "zstd:1", "checksum": True}),
        ("y.npy", {"transpose": (2, 0, 1), "region": (slice(0, 30), slice(None), slice(2, 32)), "dtype": "f4"}),
        ("y/", {"chunks": ((10, 22), 8, 8), "strategy": "naive"}),
        ("y.h5::a/b", {"chunks": "4,8,8", "codec": "gzip:1", "objective": "seeks", "device": "hdd"}),
        ("y.npy", {"transpose": "2,1,0", "strategy": "multipass", "scratch": "tmp"}),
        ("y.zarr", {"chunks": "8,8,8", "overwrite": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_a_run_goes_on_by_itself(
    here: Path, monkeypatch: pytest.MonkeyPatch, target: str, options: dict[str, Any]
) -> None:
    expected = reblock.repartition(
        "x.npy",
        "expected.zarr",
        **{key: options[key] for key in ("transpose", "region", "dtype") if key in options},
    )
    os.mkdir("tmp")
    if options.get("overwrite"):
        reblock.repartition("x.npy", target, region="0:1,:,:")
    begin(target, **options)
    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    report = reblock.resume(f"../{target}".partition("::")[0].rstrip("/"))
    assert report is not None
    assert report.resumed_boxes > 0
    assert report.digest == expected.digest
    assert reblock.resume(f"../{target}") is None
    assert reblock.status(f"../{target}") is None
    assert sorted(name for name in os.listdir(here) if name.startswith(".")) == []
    assert os.listdir(here / "tmp") == []


def test_status_shows_the_options() -> None:
    begin("y.zarr", chunks=(8, 8, 8), codec="gzip:1", region="0:16,:,:")
    found = reblock.status("y.zarr")
    assert found is not None
    assert found.options == {
        "chunks": "8,8,8",
        "region": "0:16,0:32,0:32",
        "codec": "gzip:1",
        "memory": MEMORY,
    }


def test_a_described_device_is_remembered_as_it_was() -> None:
    device = reblock.plan("x.npy", "y.zarr").decision.problem.device
    job = reblock.plan("x.npy", "y.zarr", device=device, memory="1MB")
    assert job.request is not None
    planning, running = recalled(job.request)
    assert planning["device"] == device
    assert planning["memory"] == 1_000_000
    assert running == {}
    assert reblock.plan(**planning).request == job.request


def test_a_journal_without_a_request_is_told() -> None:
    begin("y.zarr", chunks="8,8,8")
    found = find_journal("y.zarr")
    assert found is not None
    header = {key: value for key, value in found.header.items() if key != "request"}
    os.unlink(found.log.key)
    Journal.create(partial(FileLog.create, found.log.key), header)
    with pytest.raises(UnfinishedError, match="repeat the command"):
        reblock.resume("y.zarr")


# ---------------------------------------------------------------- mistyped
@pytest.mark.parametrize("todo", [reblock.status, reblock.resume, reblock.clean])
def test_a_mistyped_target_is_an_error(todo: Any) -> None:
    reblock.repartition("x.npy", "scan.zarr")
    begin("volume.zarr", chunks="8,8,8")
    with pytest.raises(UsageError, match=r"no such array.*similar names: scan\.zarr"):
        todo("scann.zarr")
    with pytest.raises(UsageError, match=r"similar names: volume\.zarr"):
        todo("volum.zarr")
    with pytest.raises(UsageError, match=r"no such array.*makes it$"):
        todo("nothing.like.it")
    os.mkdir("thesis")
    Path("thesis/text").write_text("precious")
    with pytest.raises(UsageError, match="it is not an array"):
        todo("thesis")
    assert not todo("scan.zarr")


# ---------------------------------------------------------------- scratch
@pytest.mark.parametrize("how", ["longer", "folder", "pipe"])
def test_a_scratch_file_that_is_not_as_it_was_is_made_anew(how: str) -> None:
    options = {"transpose": "2,1,0", "strategy": "multipass"}
    begin("y.npy", **options)
    blocks = sorted(Path(Staging("y.npy").workspace.scratch).glob("0/*.bin"))
    assert blocks
    for block in blocks:
        if how == "longer":
            with open(block, "ab") as file:
                file.write(b"more")
            continue
        block.unlink()
        block.mkdir() if how == "folder" else os.mkfifo(block)
    report = reblock.resume("y.npy")
    assert report is not None
    assert np.array_equal(reblock.open("y.npy")[...], np.load("x.npy").transpose())
