"""The byte-counted budget: what fits is granted in order, the rest waits, and what is given back is used again."""

from __future__ import annotations

import mmap
import sys
import threading
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest

from reblock.engine.memory.buffers import (
    STORED,
    Buffers,
    Coders,
    EncodedBufferPool,
    Region,
    ScratchBuffers,
    Stopped,
    slabs,
)
from reblock.errors import Refused
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES


def test_as_many_as_fit_are_granted_in_order() -> None:
    buffers = Buffers(100)
    assert [memory.flat.size for memory in buffers.take([40, 50, 20, 10])] == [40, 50]
    assert buffers.take([20, 10]) == []
    assert [memory.flat.size for memory in buffers.take([10])] == [10]
    assert buffers.peak == 100


def test_what_is_given_back_is_used_again() -> None:
    buffers = Buffers(100)
    first = buffers.take([50, 50])
    buffers.give(first)
    assert {id(memory) for memory in buffers.take([50, 50])} == {id(memory) for memory in first}


def test_spare_memory_of_another_size_makes_room() -> None:
    buffers = Buffers(100)
    buffers.give(buffers.take([60]))
    assert len(buffers.take([70, 30])) == 2
    assert buffers.peak == 100


def test_waiting_ends_when_there_is_room_for_one() -> None:
    buffers = Buffers(100)
    held = buffers.take([60, 40])
    giver = Thread(target=buffers.give, args=(held[1:],))
    giver.start()
    assert [memory.flat.size for memory in buffers.take([40, 40], wait=True)] == [40]
    giver.join()


def test_a_record_starts_with_the_address_of_its_bytes() -> None:
    (memory,) = Buffers(8).take([8])
    assert memory.record[0] == memory.start == memory.flat.__array_interface__["data"][0]


def test_what_can_never_fit_is_refused() -> None:
    with pytest.raises(Refused, match="does not fit"):
        Buffers(100).take([101], wait=True)


def test_nobody_waits_for_a_run_that_has_failed() -> None:
    buffers = Buffers(100)
    buffers.take([100])
    buffers.stop()
    with pytest.raises(Stopped):
        buffers.take([1], wait=True)


@pytest.mark.parametrize("size", [DIRECT_BYTES, 100_001, (2 << 20) - 1, 2 << 20, 3_000_001])
def test_large_buffers_start_on_pages_and_do_not_overlap(size: int) -> None:
    taken = Buffers(64 << 20).take([size] * 7)
    starts = sorted(memory.start for memory in taken)
    assert all(start % PAGE_BYTES == 0 for start in starts)
    assert all(after - before >= size for before, after in pairwise(starts))
    for number, memory in enumerate(taken):
        memory.flat[:] = number
    assert [set(memory.flat.tolist()) for memory in taken] == [{number} for number in range(7)]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("size", [DIRECT_BYTES, 3 << 20])
def test_buffers_are_private_memory(size: int) -> None:
    """Shared memory, which is what Python maps by itself, is never given huge pages here."""
    (memory,) = Buffers(64 << 20).take([size])
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, flags = line.split()[:2]
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= memory.start < high:
            assert flags == "rw-p", line
            return
    pytest.fail("the buffer is not mapped")


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system takes nothing back")
def test_memory_that_makes_room_goes_back_although_its_neighbours_stay() -> None:
    buffers = Buffers(1 << 20)
    first, second = buffers.take([512 << 10] * 2)
    first.flat[:], second.flat[:] = 1, 2
    buffers.give([first])
    assert len(buffers.take([256 << 10])) == 1
    assert not first.flat.any(), "its pages are fresh ones"
    assert (second.flat == 2).all()


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system takes nothing back")
def test_memory_that_makes_room_goes_back_although_someone_still_refers_to_it() -> None:
    """A thread that has given a buffer back may not have left the function that knew it."""
    buffers = Buffers(4 << 20)
    (memory,) = buffers.take([4 << 20])
    memory.flat[:] = 7
    buffers.give([memory])
    assert len(buffers.take([3 << 20])) == 1
    assert not memory.flat.any()


def test_room_behind_a_buffer_counts() -> None:
    buffers = Buffers(100, lambda size: size + size // 10)
    first, second = buffers.take([40, 50, 2])
    assert (first.flat.size, first.room.size, second.room.size) == (40, 44, 55)
    assert first.room.ctypes.data == first.flat.ctypes.data == first.start
    assert buffers.peak == 99
    buffers.give([first])
    assert buffers.take([40])[0] is first
    assert buffers.take([2]) == []


def test_coders_are_so_many_and_the_last_one_is_used_again() -> None:
    coders = Coders(2, Region())
    with coders() as one, coders() as two:
        assert one is not two
        waiting = threading.Thread(target=lambda: coders().__enter__()("x", 1))
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
    waiting.join(5)
    assert not waiting.is_alive()
    with coders() as again:
        assert again in (one, two)


def test_threads_stage_in_memory_of_their_own() -> None:
    region = Region()
    one, two = ScratchBuffers(region), ScratchBuffers(region)
    first, second = one("stored", 70_000), two("stored", 70_000)
    first[:], second[:] = 1, 2
    assert one("stored", 60_000) is first
    grown = one("stored", 3 << 20)
    grown[:] = 3
    assert (second == 2).all()


def test_stored_bytes_go_where_they_just_fit() -> None:
    pool = EncodedBufferPool([3 << 20, 2 << 20, 1 << 20], Region())
    one, two, three = (ScratchBuffers(pool=pool) for _ in range(3))
    assert one(STORED, 1 << 20).size == 1 << 20
    assert two(STORED, 1 << 20).size == 2 << 20
    assert one("decoded", 5 << 20).size == 5 << 20
    # Another unit of the same reader, which takes no second buffer; and one that has grown since gets what there is.
    assert one(STORED, 3 << 20).size == 3 << 20
    assert three(STORED, 1).size == 1 << 20
    one.leave()
    three.leave()
    assert one(STORED, 9 << 20).size == 3 << 20
    waiting = Thread(target=three, args=(STORED, 2 << 20))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    two.leave()
    waiting.join(5)
    assert not waiting.is_alive()


def test_slabs_count_when_they_are_taken() -> None:
    buffers = Buffers(100)
    assert buffers.count([40, 50, 20]) == 2
    assert buffers.count([20]) == 0
    first = slabs(300, 300)
    first.count(40)
    first.count(50)
    buffers.give([first])
    assert buffers.count([60, 40], wait=True) == 2
    assert buffers.peak == 100
    with pytest.raises(Refused, match="a buffer of 101 bytes does not fit into the 100"):
        buffers.count([101], wait=True)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell of no single mapping")
def test_slabs_take_the_pages_that_are_touched_and_give_them_back() -> None:
    memory = slabs(64 << 20, 65 << 20)
    assert (memory.flat.size, memory.room.size) == (64 << 20, 65 << 20)
    assert _resident(memory.start) == 0
    memory.flat[: 1 << 20] = 1
    assert 1 << 20 <= _resident(memory.start) <= (1 << 20) + PAGE_BYTES
    buffers = Buffers(1 << 20)
    buffers.count([1 << 20])
    memory.count(1 << 20)
    buffers.give([memory])
    assert _resident(memory.start) == 0


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no huge pages")
def test_huge_pages_are_asked_for_until_they_come_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 1e-4, 1.0, 1.1])
    monkeypatch.setattr("reblock.engine.memory.buffers.thread_time", lambda: next(seconds))
    taken = Buffers(64 << 20).take([4 << 20] * 4)
    advised = [{"hg", "nh"} & set(_told(memory.start, "VmFlags")) for memory in taken]
    assert advised == [{"hg"}, {"nh"}, {"nh"}, {"nh"}]


def _resident(start: int) -> int:
    """Bytes that a mapping has in memory."""
    return int(_told(start, "Rss")[0]) << 10


def _told(start: int, what: str) -> list[str]:
    """What the kernel tells of a mapping."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        low, _, rest = line.partition("-")
        if rest and low.strip("0123456789abcdef") == "" and int(low, 16) <= start < int(rest.split()[0], 16):
            return next(more.split()[1:] for more in lines if more.startswith(f"{what}:"))
    raise AssertionError(f"nothing is mapped at {start:x}")
