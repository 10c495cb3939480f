"""`run --dry-run` refuses what `run` refuses, in the same words, and writes nothing; `plan` says it in its notes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import reblock
from reblock.runs.staging import Staging

Call = Callable[..., Result]
RUN = ["run", "x.npy", "y.zarr", "--chunks", "5,5", "--memory", "64KiB"]


@pytest.fixture(autouse=True)
def source(here: Path) -> None:
    np.save("x.npy", np.arange(60 * 50, dtype="<i4").reshape(60, 50))


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything below a folder, with all that a write would change."""
    found = {".": os.stat(folder).st_mtime_ns}
    for path in sorted(folder.rglob("*")):
        seen = path.lstat()
        found[str(path.relative_to(folder))] = (seen.st_mode, seen.st_ino, seen.st_size, seen.st_mtime_ns)
    return found


def stop_half_way(**options: Any) -> None:
    def progress(done: int, whole: int) -> None:
        if done > 0.7 * whole:
            raise KeyboardInterrupt

    job = reblock.plan("x.npy", "y.zarr", **{"chunks": (5, 5), "memory": "64KiB", **options})
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=progress)


# ---------------------------------------------------------------- what is refused
def exists(_: pytest.MonkeyPatch) -> list[str]:
    np.save("y.npy", np.zeros(3))
    return ["run", "x.npy", "y.npy"]


def no_folder(_: pytest.MonkeyPatch) -> list[str]:
    return ["run", "x.npy", "no/such/y.zarr"]


def same(_: pytest.MonkeyPatch) -> list[str]:
    return ["run", "x.npy", "x.npy", "--overwrite"]


def inside(_: pytest.MonkeyPatch) -> list[str]:
    reblock.repartition("x.npy", "x.zarr", chunks=(5, 5))
    return ["run", "x.zarr", "x.zarr/y.npy"]


def inner(_: pytest.MonkeyPatch) -> list[str]:
    return ["run", "x.npy", "y.npy::data"]


def others(_: pytest.MonkeyPatch) -> list[str]:
    Path("y.zarr").mkdir()
    Path("y.zarr/thesis.tex").write_text("years of work")
    return [*RUN, "--overwrite"]


def strange(_: pytest.MonkeyPatch) -> list[str]:
    Path(".y.zarr.reblock").mkdir(mode=0o700)
    Path(".y.zarr.reblock/mine").touch()
    return RUN


def another(_: pytest.MonkeyPatch) -> list[str]:
    stop_half_way()
    return ["run", "x.npy", "y.zarr", "--chunks", "10,5", "--memory", "64KiB"]


def changed(_: pytest.MonkeyPatch) -> list[str]:
    stop_half_way()
    np.save("x.npy", np.zeros((60, 50), "<i4"))
    return RUN


def little(_: pytest.MonkeyPatch) -> list[str]:
    return ["run", "x.npy", "y.zarr", "--memory", "10"]


def unknown(_: pytest.MonkeyPatch) -> list[str]:
    return [*RUN, "--strategy", "best"]


def full(patch: pytest.MonkeyPatch) -> list[str]:
    room = SimpleNamespace(f_bavail=1, f_frsize=4096, f_files=0, f_favail=0)
    patch.setattr(os, "statvfs", lambda _: room)
    return RUN


def no_inodes(patch: pytest.MonkeyPatch) -> list[str]:
    room = SimpleNamespace(f_bavail=1 << 40, f_frsize=4096, f_files=1000, f_favail=20)
    patch.setattr(os, "statvfs", lambda _: room)
    return RUN


def read_only(patch: pytest.MonkeyPatch) -> list[str]:
    patch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    return RUN


def no_scratch(_: pytest.MonkeyPatch) -> list[str]:
    words = ["--transpose", "1,0", "--strategy", "multipass", "--memory", "5KiB", "--scratch", "no/scratch"]
    return ["run", "x.npy", "y.npy", *words]


REFUSED = {
    exists: "exists",
    no_folder: "does not exist: no/such",
    same: "overlap",
    inside: "overlap",
    inner: "npy holds one array",
    others: "--overwrite replaces an array and nothing else",
    strange: "not a folder that reblock made",
    another: "unfinished run of another problem",
    changed: "changed since the unfinished run",
    little: "needs at least",
    unknown: "best",
    full: "are free",
    no_inodes: "inodes",
    read_only: "not writable",
    no_scratch: "scratch folder does not exist",
}


@pytest.mark.parametrize("prepare", REFUSED, ids=lambda prepare: prepare.__name__)
def test_what_run_refuses(here: Path, call: Call, prepare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = prepare(monkeypatch)
    before = snapshot(here)
    dry = call(*words, "--dry-run")
    assert (dry.exit_code, dry.stdout) == (1, "")
    assert re.search(REFUSED[prepare], dry.stderr)
    assert snapshot(here) == before
    assert call(*words, "--dry-run", "--quiet").stderr == dry.stderr
    real = call(*words)
    assert (real.exit_code, real.stderr) == (dry.exit_code, dry.stderr)


PLANNED = [prepare for prepare in REFUSED if prepare not in (little, unknown)]


@pytest.mark.parametrize("prepare", PLANNED, ids=lambda prepare: prepare.__name__)
def test_plan_says_so(
    here: Path, call: Call, ask: Callable[..., Any], prepare: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, *words = prepare(monkeypatch)
    before = snapshot(here)
    (note,) = [note for note in ask("plan", *words)["notes"] if note.startswith("run would refuse: ")]
    assert re.search(REFUSED[prepare], note)
    shown = call("plan", *words)
    assert shown.exit_code == 0
    assert "run would refuse: " in " ".join(shown.stdout.split())
    assert snapshot(here) == before


def test_a_target_that_another_run_holds(here: Path, call: Call) -> None:
    with Staging("y.zarr"):
        before = snapshot(here)
        dry = call(*RUN, "--dry-run")
        assert (dry.exit_code, dry.stdout) == (1, "")
        assert f"process {os.getpid()} " in dry.stderr
        assert snapshot(here) == before
        assert call(*RUN).stderr == dry.stderr


# ---------------------------------------------------------------- what is not
def test_what_would_run(here: Path, call: Call, ask: Callable[..., Any]) -> None:
    before = snapshot(here)
    dry = call(*RUN, "--dry-run")
    assert (dry.exit_code, dry.stderr) == (0, "")
    assert "nothing was written" in dry.stdout
    assert dry.stdout.startswith(call("plan", *RUN[1:]).stdout.splitlines()[0])
    document = ask(*RUN, "--dry-run")
    assert document["notes"][-1] == "a dry run: nothing was written"
    assert "measured" not in document
    assert call(*RUN, "--dry-run", "--quiet").stdout == ""
    assert snapshot(here) == before
    assert call(*RUN).exit_code == 0
    assert call(*RUN, "--dry-run").exit_code == 1
    assert call(*RUN, "--dry-run", "--overwrite").exit_code == 0


def test_what_would_resume(here: Path, call: Call) -> None:
    stop_half_way()
    before = snapshot(here)
    dry = call(*RUN, "--dry-run")
    assert dry.exit_code == 0
    found = reblock.status("y.zarr")
    assert found is not None
    assert f"resume: {found.finished_boxes:,} of {found.boxes:,} write boxes are finished" in dry.stdout
    assert snapshot(here) == before
    assert call(*RUN).exit_code == 0


def test_what_is_complete(here: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Staging, "remove", lambda self, **_: [])
        assert call(*RUN).exit_code == 0
    before = snapshot(here)
    dry = call(*RUN, "--dry-run")
    assert "already complete" in dry.stdout
    assert snapshot(here) == before
    assert call(*RUN).exit_code == 0


def test_from_python(here: Path) -> None:
    job = reblock.plan("x.npy", "y.zarr", chunks=(5, 5))
    assert reblock.check(job) == []
    Path("y.zarr").mkdir()
    with pytest.raises(reblock.TargetExistsError):
        reblock.check(job)
    with pytest.raises(reblock.UsageError, match="without a source or a target"):
        reblock.check(reblock.plan("x.npy"))


@pytest.mark.parametrize("target", ["y.zarr", "y.h5", "y.npy", "y/"])
def test_nothing_is_opened_for_writing(here: Path, command: list[str], target: str) -> None:
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-o", os.devnull, "true"], check=False).returncode:
        pytest.skip("strace is not installed, or may not trace here")
    stop_half_way()
    words = ["run", "x.npy", target, "--chunks", "5,5", "--memory", "64KiB", "--dry-run"]
    calls = "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlink,symlinkat,"
    calls += "truncate,ftruncate,chmod,fchmodat,utimensat,fallocate"
    traced = [strace, "-f", "-o", "/dev/stderr", "-e", f"trace={calls}", *command, *words]
    done = subprocess.run(
        traced, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    )
    lines = [line for line in done.stderr.splitlines() if re.search(r"\b[a-z0-9]+\(", line)]
    assert sum("O_RDONLY" in line for line in lines) > 10
    writing = [line for line in lines if not re.search(r"\bopen(at)?\(.*\bO_RDONLY\b(?!.*O_CREAT)", line)]
    assert [line for line in writing if "/dev/null" not in line and "/dev/shm" not in line] == []


@pytest.mark.parametrize(
    "words",
    [
        ["y.nii.gz", "--workers", "2"],
        ["y.h5", "--chunks", "5,5", "--codec", "gzip:1", "--array-task", "0/2"],
        ["y.zarr", "--chunks", "5,5", "--workers", "2", "--cluster", "local:2"],
        ["y.zarr", "--chunks", "5,5", "--workers", "2", "--array-task", "0/2"],
    ],
)
def test_what_processes_cannot_share(call: Call, here: Path, words: list[str]) -> None:
    before = snapshot(here)
    for more in ([], ["--dry-run"]):
        result = call("run", "x.npy", *words, *more)
        assert result.exit_code == 1
        assert (
            "only one process can write" in result.stderr or "give one" in result.stderr or "leave out" in result.stderr
        )
    assert snapshot(here).keys() == before.keys()


def test_what_processes_can_share(call: Call) -> None:
    for words in (["y.h5", "--codec", "none"], ["y.npy"], ["y.zarr", "--codec", "zstd:1"]):
        assert call("run", "x.npy", *words, "--dry-run", "--workers", "2").exit_code == 0
