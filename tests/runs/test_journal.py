"""The journal and its group commits, each on its own."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import DiskError, FormatError
from reblock.geometry import Grid
from reblock.model import Finished, Pass, Schema, Store, Sums
from reblock.model.layout import Access
from reblock.runs import group_commit
from reblock.runs.group_commit import Destination, GroupCommit, destination_of
from reblock.runs.journal import VERSION, Group, Journal, from_ranges, to_ranges
from reblock.runs.numbers import Numbers
from reblock.storage import registry
from reblock.storage.media import durable
from reblock.storage.media.file_log import FileLog
from reblock.storage.media.local import LocalMedium

HEADER: dict[str, Any] = {"problem": {"source": "x"}, "boxes": [8]}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(partial(FileLog.create, str(tmp_path / "journal")), HEADER)


def group(number: int, *boxes: int) -> Group:
    numbers = np.array(boxes, np.uint64)
    return Group(number, numbers, 10 * len(boxes), np.stack([numbers * 7, numbers + 2**63], axis=1), numbers + 1)


def reopened(journal: Journal) -> Journal:
    found = Journal.open(journal.log)
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
    assert Journal.open(FileLog.find(str(tmp_path / "journal"))) is None


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_ignored_and_written_over(journal: Journal, cut: int) -> None:
    journal.append(group(0, 1).to_json())
    journal.append(group(0, 2).to_json())
    os.truncate(journal.log.key, os.path.getsize(journal.log.key) - cut)
    found = reopened(journal)
    assert boxes_of(found) == [1]
    found.append(group(0, 3).to_json())
    assert boxes_of(reopened(found)) == [1, 3]


def test_a_bad_line_ends_what_is_trusted(journal: Journal) -> None:
    journal.append(group(0, 1).to_json())
    middle = journal.trusted
    for box in (2, 3):
        journal.append(group(0, box).to_json())
    data = bytearray(Path(journal.log.key).read_bytes())
    for place in range(middle, len(data), 5):
        for bit in (0, 6):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            Path(journal.log.key).write_bytes(flipped)
            assert boxes_of(reopened(journal)) in ([1], [1, 2])


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b'{"journal":1} 0011223344556677\n', b"\xff" * 100])
def test_what_is_no_journal_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal").write_bytes(content)
    with pytest.raises(FormatError, match=r"reblock\.clean"):
        Journal.open(FileLog.find(str(tmp_path / "journal")))


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
    assert os.path.getsize(journal.log.key) < 33 * 10**6
    journal.append(Group(0, numbers, 1).to_json())
    assert os.path.getsize(journal.log.key) < 33 * 10**6
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
    real = LocalMedium.sync_all

    def hold(*arguments: Any) -> None:
        slow.wait(60)
        real(*arguments)

    monkeypatch.setattr(LocalMedium, "sync_all", hold)
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


# ---------------------------------------------------------------- boxes of worker processes
def settled(ledger: GroupCommit, *boxes: int) -> None:
    """Record boxes that a worker has made durable, in any order."""
    numbers = np.array(boxes, np.uint64)
    sums = np.stack([numbers, numbers], axis=1)
    ledger.settle(0, numbers, np.full(len(boxes), 10, np.uint64), sums, np.stack([numbers + 1] * 4, axis=1))


def test_shares_that_come_back_together_are_one_line(journal: Journal, side: Destination) -> None:
    looks: list[int] = []
    with GroupCommit(journal, most_bytes=1 << 30, unchanged=lambda: looks.append(1)) as ledger:
        ledger.watch(0, side)
        settled(ledger, 3, 1)
        settled(ledger, 7)
        ledger.record(0, [write(side, 2)])
        settled(ledger, 0, 5)
        # Nothing counts before its line is durable.
        assert boxes_of(reopened(journal)) == []
        ledger.flush()
        assert boxes_of(reopened(journal)) == [0, 1, 2, 3, 5, 7]
        assert ledger.commits == len(looks) == 1
        assert ledger.total(0) == Sums(18, 18)
    (line,) = reopened(journal).groups()
    assert line.sums is not None
    assert line.sums[:, 0].tolist() == [0, 1, 2, 3, 5, 7]


def test_shares_are_recorded_while_others_come_back(journal: Journal, side: Destination) -> None:
    """A slow journal has few lines, and delays nobody: the next shares wait for the line that is being written."""
    append, slow = journal.log.append, threading.Event()

    def wait(line: bytes, after: int) -> None:
        slow.wait(10)
        append(line, after)

    journal.log.append = wait  # type: ignore[method-assign]
    with GroupCommit(journal, most_bytes=1 << 30) as ledger:
        ledger.watch(0, side)
        settled(ledger, 0)
        flushing = threading.Thread(target=ledger.flush)
        flushing.start()
        for number in range(1, 1000):
            settled(ledger, number)
        assert boxes_of(reopened(journal)) == []
        slow.set()
        flushing.join()
    assert boxes_of(reopened(journal)) == list(range(1000))
    assert ledger.commits <= 3


def test_what_workers_return_is_bounded(journal: Journal, side: Destination, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MOST_BOXES", 4)
    with GroupCommit(journal, most_bytes=1 << 30) as ledger:
        ledger.watch(0, side)
        for start in range(0, 40, 4):
            settled(ledger, *range(start, start + 4))
    assert boxes_of(reopened(journal)) == list(range(40))
    assert ledger.commits >= 5


def test_a_source_that_changes_ends_what_workers_return(journal: Journal, side: Destination) -> None:
    def changed() -> None:
        raise FormatError("changed")

    ledger = GroupCommit(journal, most_bytes=1, unchanged=changed)
    ledger.watch(0, side)
    with pytest.raises(FormatError, match="changed"), ledger:
        settled(ledger, 1)
    assert boxes_of(reopened(journal)) == []
