"""Appends and replaced regions, killed at any moment: the old array is whole until the commit, byte for byte, and the
same command always ends with the same elements."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr

import reblock
from faults.rig import ALL, Outcome, Rig
from reblock.runs.journal import Journal
from reblock.storage.media.file_log import FileLog

#: A strategy is named so that no time goes into the search for the best.
MEMORY = ["--memory", "256KiB", "--device", "nvme", "--strategy", "keep", "--json"]
#: How the array is made that is changed.
MADE = {
    "zarr": ("y.zarr", {"chunks": (12, 10, 11), "codec": "zstd:1"}),
    "zarr2": ("y.zarr", {"chunks": (12, 10, 11), "to_format": "zarr2"}),
    "sharded": ("y.zarr", {"chunks": (6, 10, 11), "shards": (12, 20, 22), "codec": "zstd:1"}),
    "raw-shards": ("y.zarr", {"chunks": (6, 10, 11), "shards": (12, 20, 22)}),
    "blocks": ("y", {"chunks": (12, 10, 11), "to_format": "blocks"}),
    "nifti-blocks": ("y", {"chunks": (12, 20, 22), "to_format": "fileblocks:nii"}),
}
CHANGES = {
    "append": ("--append-along", "0"),
    "region": ("--region", "0:24,0:20,:", "--into-region", "12:36,20:40,:"),
}
#: What runs in `make test`; the sweeps have every pair.
SAMPLE = [("zarr", "append"), ("raw-shards", "region"), ("blocks", "append")]
EVERY = [(made, change) for made in MADE for change in CHANGES]


@dataclass(frozen=True)
class Case:
    """An array, and a command line that changes it."""

    target: str
    options: tuple[str, ...]
    folder: Path

    @property
    def words(self) -> list[str]:
        return ["run", "x.npy", self.target, *self.options, *MEMORY]

    def after(self) -> npt.NDArray[Any]:
        """The elements after the change, as bits."""
        old, new = (np.load(self.folder / name).view("u4") for name in ("old.npy", "x.npy"))
        if "--append-along" in self.options:
            return np.concatenate([old, new])
        old[12:36, 20:40] = new[0:24, 0:20]
        return old

    def copies(self) -> Iterator[Path]:
        """Fresh folders with the same source and the same old array."""
        for number in range(10**9):
            folder = self.folder / str(number)
            folder.mkdir()
            shutil.copy2(self.folder / "x.npy", folder)
            shutil.copytree(self.folder / self.target, folder / self.target)
            yield folder
            shutil.rmtree(folder)


def make_case(here: Path, made: str, change: str) -> Case:
    name, options = MADE[made]
    old = np.random.default_rng(1).integers(0, 2**32, (48, 40, 44), "u4").view("f4")
    np.save(here / "old.npy", old)
    reblock.repartition(here / "old.npy", here / name, **options)
    return Case(name, CHANGES[change], here)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_committed(folder: Path) -> bool:
    """Whether the journal has the commit, or is gone with the staging folder."""
    found = [*folder.glob(".*.reblock/journal"), *folder.glob(".*.reblock-done")]
    if not found:
        return False
    journal = Journal.open(FileLog.find(str(found[0])))
    return journal is not None and journal.complete() is not None


def check_killed(folder: Path, case: Case, before: dict[str, bytes]) -> None:
    """Whatever was killed: the old array is as it was, or the change is committed and each chunk is old or new."""
    if not is_committed(folder) and contents(folder / case.target) != before:
        # The run was killed after it had removed its journal.
        assert not list(folder.glob(".*.reblock/journal"))
        assert np.array_equal(reblock.open(folder / case.target)[...].view("u4"), case.after())
    assert reblock.open(folder / case.target).shape in ((48, 40, 44), case.after().shape)


def check_changed(folder: Path, case: Case, done: Outcome, want: str) -> None:
    assert done.code == 0, done
    assert done.document["digest"] == want
    made = reblock.open(folder / case.target)
    assert np.array_equal(made[...].view("u4"), case.after())
    assert made.store.schema.record.digest is None
    assert {path.name for path in folder.iterdir()} == {"x.npy", case.target}
    # Nothing is beyond the new shape, and nothing of ours is left inside.
    assert not any(".draft" in name for name in contents(folder / case.target))


def kill_and_repeat(rig: Rig, folder: Path, case: Case, when: int, want: str, kinds: tuple[str, ...] = ALL) -> bool:
    """Whether the run was killed at all."""
    before = contents(folder / case.target)
    killed = rig.run(folder, case.words, kinds=kinds, when=when)
    assert killed.code == (-9 if killed.fired else 0), killed
    if killed.fired:
        check_killed(folder, case, before)
        killed = rig.run(folder, case.words)
        fired = True
    else:
        fired = False
    check_changed(folder, case, killed, want)
    return fired


@pytest.mark.parametrize(("made", "change"), SAMPLE)
def test_killed_at_some_moments(rig: Rig, here: Path, made: str, change: str) -> None:
    case = make_case(here, made, change)
    places = case.copies()
    folder = next(places)
    once = rig.run(folder, case.words)
    check_changed(folder, case, once, once.document["digest"])
    # Threads make a few calls more or less.
    for part in (0.5, 0.9, 0.94):
        assert kill_and_repeat(rig, next(places), case, int(once.calls * part), once.document["digest"])


def committed(rig: Rig, case: Case, places: Iterator[Path]) -> Path:
    """A folder in which a run was killed between its commit and its end, with chunks of both kinds in place."""
    renames = rig.run(next(places), case.words, kinds=("rename",)).calls
    folder = next(places)
    before = contents(folder / case.target)
    killed = rig.run(folder, case.words, kinds=("rename",), when=renames - 12)
    assert killed.code == -9
    assert is_committed(folder)
    assert contents(folder / case.target) != before
    return folder


def test_a_committed_change_is_completed_without_its_source(rig: Rig, here: Path) -> None:
    case = make_case(here, "zarr", "append")
    folder = committed(rig, case, case.copies())
    (folder / "x.npy").unlink()
    found = reblock.status(folder / case.target)
    assert found is not None
    assert found.state == "committed"
    with pytest.raises(reblock.UsageError, match="can only be completed"):
        reblock.clean(folder / case.target)
    assert rig.run(folder, ["resume", case.target]).code == 0
    assert np.array_equal(reblock.open(folder / case.target)[...].view("u4"), case.after())
    assert reblock.status(folder / case.target) is None


def test_a_committed_change_is_in_the_way_of_another(rig: Rig, here: Path) -> None:
    case = make_case(here, "blocks", "region")
    folder = committed(rig, case, case.copies())
    other = rig.run(folder, ["run", "x.npy", case.target, "--append-along", "0", *MEMORY])
    assert other.code == 1
    assert "resume" in other.document["error"]["message"]
    assert rig.run(folder, case.words).code == 0
    assert np.array_equal(reblock.open(folder / case.target)[...].view("u4"), case.after())


def test_clean_before_the_commit_leaves_the_old_array(rig: Rig, here: Path) -> None:
    case = make_case(here, "zarr2", "append")
    places = case.copies()
    once = rig.run(next(places), case.words)
    folder = next(places)
    before = contents(folder / case.target)
    rig.run(folder, case.words, when=once.calls // 2)
    assert not is_committed(folder)
    assert reblock.clean(folder / case.target)
    assert contents(folder / case.target) == before
    assert {path.name for path in folder.iterdir()} == {"x.npy", case.target}


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("made", "change"), EVERY)
def test_killed_at_random_moments(rig: Rig, here: Path, made: str, change: str) -> None:
    case = make_case(here, made, change)
    places = case.copies()
    once = rig.run(next(places), case.words)
    chance = random.Random(7)
    moments = [chance.randrange(1, once.calls + 1) for _ in range(20)]
    assert sum(kill_and_repeat(rig, next(places), case, when, once.document["digest"]) for when in moments) > 15


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["rename", "sync", "unlink", "mkdir"])
@pytest.mark.parametrize(("made", "change"), [("zarr", "append"), ("sharded", "region"), ("nifti-blocks", "append")])
def test_killed_at_every(rig: Rig, here: Path, made: str, change: str, kind: str) -> None:
    case = make_case(here, made, change)
    places = case.copies()
    want = rig.run(next(places), case.words).document["digest"]
    when = 1
    while kill_and_repeat(rig, next(places), case, when, want, (kind,)):
        when += 1
    assert when > 1


# ---------------------------------------------------------------- datasets
GROUP = ["run", "x.zarr", "y.zarr", "--append-along", "time", *MEMORY]


def make_group(path: Path, start: int, length: int) -> None:
    top = zarr.create_group(path)
    chance = np.random.default_rng(start)
    for name, axes in (("a", ("time", "lat")), ("deep/b", ("lat", "time")), ("time", ("time",)), ("lat", ("lat",))):
        shape = [length if axis == "time" else 6 for axis in axes]
        made = top.create_array(name, shape=shape, chunks=[3] * len(shape), dtype="f8", dimension_names=axes)
        made[...] = np.arange(6) if name == "lat" else chance.normal(size=shape)


def group_values(path: Path) -> dict[str, Any]:
    found = reblock.open_dataset(path)
    return {name: found[name][...] for name in found}


def kill_group(rig: Rig, folder: Path, when: int, want: Any) -> bool:
    """Kill an append of a dataset, and repeat it; whether it was killed at all."""
    before = contents(folder / "y.zarr")
    killed = rig.run(folder, GROUP, when=when, source="x.zarr")
    assert killed.code == (-9 if killed.fired else 0), killed
    if killed.fired:
        unfinished = list(folder.glob(".*.reblock/journal"))
        assert is_committed(folder) or not unfinished or contents(folder / "y.zarr") == before
        killed, fired = rig.run(folder, GROUP, source="x.zarr"), True
    else:
        fired = False
    assert killed.code == 0, killed
    assert killed.document["digest"] == want["digest"]
    found = group_values(folder / "y.zarr")
    assert all(np.array_equal(found[name], values) for name, values in want["values"].items())
    assert {path.name for path in folder.iterdir()} == {"x.zarr", "y.zarr"}
    return fired


def group_copies(here: Path) -> Iterator[Path]:
    make_group(here / "old.zarr", 0, 6)
    make_group(here / "new.zarr", 1, 5)
    for number in range(10**9):
        folder = here / str(number)
        folder.mkdir()
        shutil.copytree(here / "old.zarr", folder / "y.zarr")
        shutil.copytree(here / "new.zarr", folder / "x.zarr")
        yield folder
        shutil.rmtree(folder)


def group_once(rig: Rig, folder: Path) -> tuple[int, Any]:
    """The calls of an append that nothing disturbs, and its results, checked against numpy."""
    done = rig.run(folder, GROUP, source="x.zarr")
    assert done.code == 0, done
    old, new, found = (group_values(folder.parent / name) for name in ("old.zarr", "new.zarr", f"{folder.name}/y.zarr"))
    for name, axis in (("a", 0), ("deep/b", 1), ("time", 0)):
        assert np.array_equal(found[name], np.concatenate([old[name], new[name]], axis))
    return done.calls, {"digest": done.document["digest"], "values": found}


def test_a_dataset_is_appended_as_a_whole(rig: Rig, here: Path) -> None:
    places = group_copies(here)
    calls, want = group_once(rig, next(places))
    for part in (0.6, 0.9):
        assert kill_group(rig, next(places), int(calls * part), want)


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_a_dataset_killed_at_random_moments(rig: Rig, here: Path) -> None:
    places = group_copies(here)
    calls, want = group_once(rig, next(places))
    chance = random.Random(3)
    assert sum(kill_group(rig, next(places), chance.randrange(1, calls + 1), want) for _ in range(20)) > 15
