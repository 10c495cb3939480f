"""A run killed at a random moment resumes in other surroundings, and its digest is that of a whole run.

Processes of `reblock run` are killed with SIGKILL at moments spread over the time of an uninterrupted run. The same
command then finishes with another number of cores, from another folder, through a link or with less search. Some of
these surroundings would plan the job differently, so a resumed run that planned anew would not find the boxes of its
journal. `make test` kills one run for each kind of surroundings, `make test-faults` a hundred.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from faults.conftest import MEMORY_DISK

#: Kills of each command in the sweep.
MANY_KILLS = 25
#: The longest that one run may take on a busy machine.
PATIENCE_SECONDS = 300

PROGRAM = "from reblock.cli import main\nmain()"
FOUR_CORES = "import os\nos.sched_getaffinity = lambda _: set(range(4))\n"
#: Fails if one of the limits has another name by now.
LESS_SEARCH = """
import reblock.planner.search as search
for limit in ("MANY_POINTS", "MANY_TRIALS", "MANY_MORE"):
    assert hasattr(search, limit), limit
    setattr(search, limit, 1)
"""


@dataclass(frozen=True)
class Surroundings:
    """Where and how the process of a run is started."""

    cores: int = 2
    """Cores that the process may use, at most."""
    setup: str = ""
    """Python statements that come before the command line."""
    cwd: str = "data"
    """The working directory, below that of the test."""
    folder: str = ""
    """The folder of the arrays as spelled from there; "" = the working directory."""


SURROUNDINGS = {
    "one core": Surroundings(cores=1),
    "two cores": Surroundings(),
    "four cores": Surroundings(setup=FOUR_CORES),
    "another folder": Surroundings(cwd="elsewhere", folder="../data"),
    "a link": Surroundings(cwd=".", folder="link"),
    "less search": Surroundings(setup=LESS_SEARCH),
}


@dataclass(frozen=True)
class Command:
    """One command line on arrays in one folder."""

    source: str
    """Name of the source."""
    target: str
    """Name of the target."""
    options: tuple[str, ...]
    """Options other than --transpose."""
    transpose: tuple[int, ...] | None = None
    """Axes of --transpose."""
    passes: int = 1
    """Passes of its plan, at least."""

    def words(self, folder: str) -> list[str]:
        axes = () if self.transpose is None else ("--transpose", ",".join(map(str, self.transpose)))
        ends = [os.path.join(folder, self.source), os.path.join(folder, self.target)]
        return ["run", *ends, *self.options, *axes, "--json"]


COMMANDS = {
    "npy to zarr": Command("x.npy", "y.zarr", ("--chunks", "48,64,64", "--codec", "zstd:9", "--memory", "24MiB")),
    "zarr to hdf5": Command("x.zarr", "y.h5", ("--chunks", "96,32,64", "--codec", "gzip:4", "--memory", "8MiB")),
    "hdf5 to shards": Command(
        "x.h5", "y.zarr", ("--chunks", "32,32,32", "--shards", "96,64,64", "--codec", "zstd:9", "--memory", "24MiB")
    ),
    "two passes": Command(
        "x.npy",
        "y.zarr",
        ("--chunks", "256,4,96", "--codec", "zstd:3", "--memory", "6MiB", "--strategy", "multipass"),
        transpose=(2, 1, 0),
        passes=2,
    ),
}


class Site:
    """A folder with sources, and the processes that work on them."""

    def __init__(self, top: Path, length: int) -> None:
        self.top, self.folder = top, top / "data"
        self.folder.mkdir()
        (top / "link").symlink_to("data")
        (top / "elsewhere").mkdir()
        elements = np.random.default_rng(7).integers(0, 2000, (length, 256, 256), "u4")
        np.save(self.folder / "x.npy", elements)
        reblock.repartition(self.folder / "x.npy", self.folder / "x.zarr", chunks=(32, 128, 64), codec="zstd:1")
        reblock.repartition(self.folder / "x.npy", self.folder / "x.h5", chunks=(96, 64, 32), codec="gzip:1")
        self._sources = self._names()

    def _names(self) -> set[str]:
        return {entry.name for entry in self.folder.iterdir()}

    def start(self, command: Command, name: str, *options: str) -> subprocess.Popen[str]:
        """Start a command in the surroundings of that name."""
        around = SURROUNDINGS[name]
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[: around.cores]))
        program = [sys.executable, "-c", around.setup + PROGRAM, *command.words(around.folder), *options]
        # Its output is small enough for the pipes.
        return subprocess.Popen(
            ["taskset", "-c", cores, *program],
            cwd=self.top / around.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, command: Command, name: str, *options: str) -> tuple[int, Any]:
        """Run a command to its end; returns the exit code and the JSON document."""
        with self.start(command, name, *options) as process:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert out, err
        return process.returncode, json.loads(out)

    def kill(self, command: Command, name: str, seconds: float) -> bool:
        """Start a command and kill it after some seconds; returns whether that was before its end."""
        with self.start(command, name) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
        assert process.returncode in (0, 1, -signal.SIGKILL), process.returncode
        return process.returncode == -signal.SIGKILL

    def made(self) -> set[str]:
        """Names of all that runs made."""
        return self._names() - self._sources

    def clear(self) -> None:
        for name in self.made():
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@dataclass(frozen=True)
class Whole:
    """A run that was not interrupted."""

    digest: str
    """Digest of its target."""
    plan: list[Any]
    """Strategy and passes of its plan."""
    seconds: float
    """How long its process took."""


def run_whole(site: Site, command: Command) -> Whole:
    site.clear()
    began = time.monotonic()
    code, document = site.finish(command, "two cores")
    seconds = time.monotonic() - began
    assert code == 0, document
    assert len(document["passes"]) >= command.passes
    site.clear()
    return Whole(document["digest"], plan_of(document), seconds)


def plan_of(document: Any) -> list[Any]:
    return [document[key] for key in ("strategy", "passes")]


def has_journal(target: Path) -> bool:
    """Whether a run has left a journal."""
    try:
        return reblock.status(target) is not None
    except reblock.UsageError:
        return False


def kill_and_resume(site: Site, command: Command, whole: Whole, rng: random.Random, name: str) -> int:
    """Kill a run, sometimes twice, and finish it in the surroundings of that name; returns the resumed boxes."""
    seconds = rng.uniform(0.02, 1) * whole.seconds
    while not site.kill(command, "two cores", seconds):
        # This run was faster than the one that was measured.
        site.clear()
        seconds *= 0.8
    story = [f"killed after {seconds:.2f} s of {whole.seconds:.2f}"]
    target = site.folder / command.target
    began = has_journal(target)
    if rng.random() < 0.3:
        other, seconds = rng.choice(list(SURROUNDINGS)), rng.uniform(0.02, 0.8) * whole.seconds
        if site.kill(command, other, seconds):
            story.append(f"killed again with {other} after {seconds:.2f} s")
    code, document = site.finish(command, name)
    story.append(f"finished with {name}")
    if code == 1 and document["error"]["type"] == "TargetExistsError":
        # The kill came after the target was published.
        digest, resumed = reblock.verify(target, target).source_digest, 0
    else:
        assert code == 0, (story, document)
        # A run that was killed before it had a journal left no plan.
        assert not began or plan_of(document) == whole.plan, story
        digest, resumed = document["digest"], document["resumed_boxes"]
    assert digest == whole.digest, story
    assert reblock.verify(site.folder / command.source, target, transpose=command.transpose).equal, story
    assert site.made() == {command.target}, story
    site.clear()
    return int(resumed)


def site_of(tmp: Path, length: int) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else tmp) as name:
        yield Site(Path(name), length)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Sources of 24 MiB."""
    yield from site_of(tmp_path_factory.mktemp("small"), 96)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Sources of 96 MiB."""
    yield from site_of(tmp_path_factory.mktemp("large"), 384)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(len(SURROUNDINGS)), ids=SURROUNDINGS)
def test_a_killed_run_resumes_anywhere(small: Site, number: int) -> None:
    command = list(COMMANDS.values())[number % len(COMMANDS)]
    kill_and_resume(small, command, run_whole(small, command), random.Random(number), list(SURROUNDINGS)[number])


def plans(site: Site, name: str) -> list[Any]:
    """The plans of all commands in the surroundings of that name."""
    found = []
    for command in COMMANDS.values():
        code, document = site.finish(command, name, "--dry-run")
        assert code == 0, document
        found.append(plan_of(document))
    return found


def test_other_surroundings_would_plan_differently(small: Site) -> None:
    """Otherwise these tests would pass even if a resumed run planned anew."""
    usual = plans(small, "two cores")
    for name in ("one core", "four cores", "less search"):
        assert plans(small, name) != usual, name


@pytest.mark.faults
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", COMMANDS)
def test_runs_killed_at_random_moments_resume_anywhere(large: Site, name: str) -> None:
    command, rng, names = COMMANDS[name], random.Random(name), list(SURROUNDINGS)
    whole = run_whole(large, command)
    resumed = [kill_and_resume(large, command, whole, rng, names[number % len(names)]) for number in range(MANY_KILLS)]
    # Most kills come after the first checkpoint and before the end.
    assert sum(map(bool, resumed)) > MANY_KILLS // 3, resumed
