"""The journal, its lock, its group commits and the staging folder, each on its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import DiskError, FormatError, LockedError, TargetExistsError
from reblock.geometry import Grid
from reblock.model import Finished, Pass, Schema, Store, Sums
from reblock.model.layout import Access
from reblock.runs import group_commit
from reblock.runs.group_commit import Destination, GroupCommit, destination_of
from reblock.runs.journal import VERSION, Group, Journal, from_ranges, to_ranges
from reblock.runs.lock import Lock, who_holds
from reblock.runs.numbers import Numbers
from reblock.runs.staging import Staging
from reblock.storage import registry
from reblock.storage.media import durable

HEADER: dict[str, Any] = {"problem": {"source": "x"}, "boxes": [8]}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(str(tmp_path / "journal"), HEADER)


def group(number: int, *boxes: int) -> Group:
    numbers = np.array(boxes, np.uint64)
    return Group(number, numbers, 10 * len(boxes), np.stack([numbers * 7, numbers + 2**63], axis=1), numbers + 1)


def reopened(journal: Journal) -> Journal:
    found = Journal.open(journal.path)
    assert found is not None
    return found


def boxes_of(journal: Journal, number: int = 0) -> list[int]:
    return [int(box) for one in journal.groups() if one.number == number for box in one.boxes]


# ---------------------------------------------------------------- the file
def test_what_is_appended_is_found_again(journal: Journal) -> None:
    made = [group(0, 0, 1, 2, 5), group(1, 3), group(0, 9)]
    for one in made:
        journal.append(one.to_json())
    found = reopened(journal)
    assert found.header == {"journal": VERSION, **HEADER}
    for one, two in zip(made, found.groups(), strict=True):
        assert (one.number, one.bytes) == (two.number, two.bytes)
        for a, b in ((one.boxes, two.boxes), (one.sums, two.sums), (one.stamps, two.stamps)):
            np.testing.assert_array_equal(a, b)
    assert found.complete() is None


def test_no_journal_is_none(tmp_path: Path) -> None:
    assert Journal.open(str(tmp_path / "journal")) is None


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_ignored_and_written_over(journal: Journal, cut: int) -> None:
    journal.append(group(0, 1).to_json())
    journal.append(group(0, 2).to_json())
    os.truncate(journal.path, os.path.getsize(journal.path) - cut)
    found = reopened(journal)
    assert boxes_of(found) == [1]
    found.append(group(0, 3).to_json())
    assert boxes_of(reopened(found)) == [1, 3]


def test_a_bad_line_ends_what_is_trusted(journal: Journal) -> None:
    journal.append(group(0, 1).to_json())
    middle = journal.trusted
    for box in (2, 3):
        journal.append(group(0, box).to_json())
    data = bytearray(Path(journal.path).read_bytes())
    for place in range(middle, len(data), 5):
        for bit in (0, 6):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            Path(journal.path).write_bytes(flipped)
            assert boxes_of(reopened(journal)) in ([1], [1, 2])


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b'{"journal":1} 0011223344556677\n', b"\xff" * 100])
def test_what_is_no_journal_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal").write_bytes(content)
    with pytest.raises(FormatError, match=r"reblock\.clean"):
        Journal.open(str(tmp_path / "journal"))


def test_what_is_forgotten_does_not_count(journal: Journal) -> None:
    journal.append(group(0, 1).to_json())
    journal.append(group(1, 1).to_json())
    journal.append({"drop": [0]})
    journal.append({"complete": {"inode": 5, "digest": None}})
    assert (reopened(journal).dropped(), reopened(journal).complete()) == ({0}, {"inode": 5, "digest": None})
    journal.append({"forget": [0]})
    journal.append(group(0, 2).to_json())
    found = reopened(journal)
    assert (boxes_of(found, 0), boxes_of(found, 1)) == ([2], [1])
    assert (found.dropped(), found.complete()) == (set(), None)


@given(st.sets(st.integers(0, 300)))
def test_ranges_and_back(numbers: set[int]) -> None:
    array = np.array(sorted(numbers), np.uint64)
    assert from_ranges(to_ranges(array)).tolist() == sorted(numbers)
    found = Numbers.of(array)
    assert (list(found), len(found)) == (sorted(numbers), len(numbers))
    assert [n for n in range(-1, 302) if n in found] == sorted(numbers)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20))
def test_numbers_from_any_ranges(ranges: list[tuple[int, int]]) -> None:
    expected = sorted({n for a, b in ranges for n in range(a, b)})
    assert list(Numbers(ranges)) == expected
    assert list(Numbers(ranges[::2]) | Numbers(ranges[1::2])) == expected


def test_a_million_boxes_stay_small(journal: Journal) -> None:
    """32 bytes and a bit per box, and next to nothing without sums."""
    numbers = np.arange(10**6, dtype=np.uint64)
    journal.append(Group(0, numbers, 1, np.stack([numbers, numbers], axis=1), numbers).to_json())
    assert os.path.getsize(journal.path) < 33 * 10**6
    journal.append(Group(0, numbers, 1).to_json())
    assert os.path.getsize(journal.path) < 33 * 10**6
    assert sum(one.boxes.size for one in reopened(journal).groups()) == 2 * 10**6


# ---------------------------------------------------------------- group commits
@pytest.fixture
def side(tmp_path: Path) -> Destination:
    """Files b0, b1, ... of ten bytes."""
    schema = Schema((80,), np.dtype("u1"), (10,))
    store = registry.get("rawblocks").create(str(tmp_path / "array"), "", schema)
    return destination_of(store, sweep_of(store), str(tmp_path))


def sweep_of(store: Store) -> Pass:
    grid = store.layout.objects
    return Pass(grid, grid, grid, tuple(range(grid.ndim)), Access.UNITS, Access.UNITS)


def write(side: Destination, number: int) -> Finished:
    path = side.store.place((number,)).path
    Path(path).write_bytes(bytes([number]) * 10)
    return Finished(number, path, 10, Sums(number, number))


def test_a_box_is_durable_within_about_a_second(journal: Journal, side: Destination) -> None:
    with GroupCommit(journal, most_bytes=1 << 30) as ledger:
        ledger.watch(0, side)
        ledger.record(0, [write(side, 3)])
        deadline = time.monotonic() + 10
        while not boxes_of(reopened(journal)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert boxes_of(reopened(journal)) == [3]
        assert ledger.total(0) == Sums(3, 3)


@pytest.mark.parametrize(("most_bytes", "most_boxes"), [(40, 1 << 14), (1 << 30, 4)])
def test_half_of_the_most_is_committed_at_once(
    most_bytes: int, most_boxes: int, journal: Journal, side: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "AGE_SECONDS", 3600)
    monkeypatch.setattr(group_commit, "MOST_BOXES", most_boxes)
    with GroupCommit(journal, most_bytes=most_bytes) as ledger:
        ledger.watch(0, side)
        ledger.record(0, [write(side, 0)])
        time.sleep(0.2)
        assert boxes_of(reopened(journal)) == []
        ledger.record(0, [write(side, 1)])
        deadline = time.monotonic() + 10
        while not boxes_of(reopened(journal)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert boxes_of(reopened(journal)) == [0, 1]


def test_what_can_be_lost_is_bounded(journal: Journal, side: Destination, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a budget waits for a slow disk, whoever records waits too."""
    slow = threading.Event()
    real = durable.make_durable

    def hold(*arguments: Any) -> None:
        slow.wait(60)
        real(*arguments)

    monkeypatch.setattr(durable, "make_durable", hold)
    with GroupCommit(journal, most_bytes=20) as ledger:
        ledger.watch(0, side)
        recorded = []

        def record_all() -> None:
            for number in range(8):
                ledger.record(0, [write(side, number)])
                recorded.append(number)

        writer = threading.Thread(target=record_all)
        writer.start()
        time.sleep(0.3)
        assert recorded == [0, 1]
        slow.set()
        writer.join(60)
    assert sorted(boxes_of(reopened(journal))) == list(range(8))


def test_a_failed_sync_is_final(journal: Journal, side: Destination) -> None:
    """Whatever is done after it, and however often: a second sync that succeeds would prove nothing."""
    seen = []

    def work() -> None:
        with GroupCommit(journal, most_bytes=80) as ledger:
            ledger.watch(0, side)
            ledger.record(0, [write(side, 0)])
            ledger.flush()
            lost = write(side, 1)
            os.unlink(lost.path)
            ledger.record(0, [lost])
            with pytest.raises(DiskError, match=lost.path):
                ledger.flush()
            write(side, 1)
            for again in (ledger.flush, lambda: ledger.record(0, [write(side, 2)])):
                with pytest.raises(DiskError, match=lost.path):
                    again()
                seen.append(again)

    with pytest.raises(DiskError, match=r"1\.bin"):
        work()
    assert len(seen) == 2
    assert boxes_of(reopened(journal)) == [0]


def test_a_changed_source_stops_the_journal(journal: Journal, side: Destination) -> None:
    def changed() -> None:
        raise FormatError("changed")

    def work() -> None:
        with GroupCommit(journal, most_bytes=4, unchanged=changed) as ledger:
            ledger.watch(0, side)
            ledger.record(0, [write(side, 0)])

    with pytest.raises(FormatError, match="changed"):
        work()
    assert boxes_of(reopened(journal)) == []


def test_stamps_are_of_boxes_that_are_files(tmp_path: Path, journal: Journal, side: Destination) -> None:
    assert side.alone
    with GroupCommit(journal, most_bytes=80, digest=False) as ledger:
        ledger.watch(0, side)
        ledger.record(0, [write(side, 0), write(side, 1)])
    (found,) = reopened(journal).groups()
    assert found.sums is None
    assert found.stamps is not None
    paths = [side.store.place((number,)).path for number in (0, 1)]
    assert group_commit.stamps(durable.looks(paths)).tolist() == found.stamps.tolist()
    Path(paths[1]).write_bytes(b"other bytes")
    os.utime(paths[0])
    assert not (group_commit.stamps(durable.looks(paths)) == found.stamps).any()
    whole = registry.get("npy").create(str(tmp_path / "y.npy"), "", Schema((80,), np.dtype("u1"), (80,)))
    grid = Grid.of((80,), (10,))
    cut = Pass(grid, grid, grid, (0,), Access.RUNS, Access.RUNS)
    assert not destination_of(whole, cut, str(tmp_path)).alone


@pytest.mark.parametrize("count", [1, durable.MANY_FILES, durable.MANY_FILES + 1])
def test_files_and_the_folders_above_them_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    root = tmp_path / "root"
    files = [root / "c" / str(n % 3) / str(n) for n in range(count)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    synced: list[str] = []
    whole: list[str] = []
    monkeypatch.setattr(durable, "sync", synced.append)
    monkeypatch.setattr(durable, "sync_file_system", lambda path: whole.append(path) or True)
    durable.make_durable({str(file) for file in files}, str(root))
    if count > durable.MANY_FILES:
        assert (synced, whole) == ([], [str(root)])
    else:
        folders = {str(file.parent) for file in files} | {str(root), str(root / "c")}
        assert sorted(synced) == sorted([*map(str, files), *folders])
        assert synced[-1] == str(root)


def test_a_file_system_can_be_synced_or_says_that_it_cannot(tmp_path: Path) -> None:
    assert durable.sync_file_system(str(tmp_path)) in (True, False)
    with pytest.raises(DiskError):
        durable.sync_file_system(str(tmp_path / "nowhere"))


# ---------------------------------------------------------------- the lock
def test_one_holds_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "lock")
    assert who_holds(path) is None
    one, two = Lock(path), Lock(path)
    one.take("y")
    assert f"process {os.getpid()} on" in str(who_holds(path))
    began = time.monotonic()
    with pytest.raises(LockedError, match=f"y is being written by another run .process {os.getpid()} "):
        two.take("y")
    assert time.monotonic() - began < 1
    one.release()
    assert who_holds(path) is None
    two.take("y")
    two.release()


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    code = (
        "import sys, time; from reblock.runs.lock import Lock; lock = Lock(sys.argv[1]); lock.take('y'); "
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(LockedError, match=f"process {process.pid} "):
            Lock(path).take("y")
        process.kill()
        process.wait()
        lock = Lock(path)
        lock.take("y")
        lock.release()


def test_a_lock_whose_folder_is_removed_does_not_count(tmp_path: Path) -> None:
    """Whoever waits for a run that ends finds a folder that is gone, and makes its own."""
    staging = Staging(str(tmp_path / "y"))
    other = Lock(staging.lock)
    with staging:
        staging.remove()
        assert not os.path.exists(staging.folder)
        other.take("y")
        assert os.path.exists(staging.lock)
    # Leaving has not taken the other's folder away.
    assert str(who_holds(staging.lock)).startswith("process")
    other.release()


# ---------------------------------------------------------------- the folder
def fill(folder: Path, content: str) -> None:
    folder.mkdir()
    (folder / "content").write_text(content)


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("old", ["folder", "file", "link", None])
@pytest.mark.parametrize("new", ["folder", "file"])
def test_publishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swaps: bool, old: str | None, new: str) -> None:
    if not swaps:
        monkeypatch.setattr(durable, "_function", lambda name: None)
    target = tmp_path / "y"
    if old == "folder":
        fill(target, "old")
    elif old == "file":
        target.write_text("old")
    elif old == "link":
        fill(tmp_path / "elsewhere", "old")
        target.symlink_to("elsewhere")
    with Staging(str(target), overwrite=True) as staging:
        if new == "folder":
            fill(Path(staging.path), "new")
        else:
            Path(staging.path).write_text("new")
        inode = os.stat(staging.path).st_ino
        staging.publish()
        assert staging.published(inode)
        assert (target / "content" if new == "folder" else target).read_text() == "new"
        assert not target.is_symlink()
    assert {entry.name for entry in tmp_path.iterdir()} == {"y"} | ({"elsewhere"} if old == "link" else set())
    if old == "link":
        assert (tmp_path / "elsewhere" / "content").read_text() == "old"


@pytest.mark.parametrize("renames", [True, False])
def test_publishing_over_what_somebody_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: bool
) -> None:
    if not renames:
        monkeypatch.setattr(durable, "_function", lambda name: None)
    with Staging(str(tmp_path / "y")) as staging:
        Path(staging.path).write_text("new")
        (tmp_path / "y").write_text("theirs")
        with pytest.raises(TargetExistsError):
            staging.publish()
        assert (tmp_path / "y").read_text() == "theirs"


def test_a_target_that_was_moved_away_is_put_back(tmp_path: Path) -> None:
    with Staging(str(tmp_path / "y"), overwrite=True) as staging:
        fill(Path(staging.folder) / "replaced", "old")
    assert (tmp_path / "y" / "content").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["y"]


def test_long_names_have_a_folder_each(tmp_path: Path) -> None:
    names = ["n" * 250 + end for end in ("a", "b")]
    folders = [Staging(str(tmp_path / name)).folder for name in names]
    assert len(set(folders)) == 2
    for folder in folders:
        os.mkdir(folder)


def test_a_folder_with_a_journal_is_kept(tmp_path: Path) -> None:
    with Staging(str(tmp_path / "y")) as staging:
        Path(staging.path).write_text("half")
        Journal.create(staging.journal, HEADER)
    assert {path.name for path in Path(staging.folder).iterdir()} == {"array", "journal", "lock"}
    said = json.loads(Path(staging.lock).read_text())
    assert said["pid"] == os.getpid()
    with staging:
        removed = staging.clear()
    assert {os.path.basename(path) for path in removed} == {"array", "journal"}
    assert list(tmp_path.iterdir()) == []
