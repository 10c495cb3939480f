"""The byte-counted budget: what fits is granted in order, the rest waits, and what is given back is used again."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path
from threading import Thread

import pytest

from reblock.engine.memory.budget import MemoryBudget, SpareMemory, Stopped, slabs
from reblock.errors import Refused
from reblock.model.medium import PAGE_BYTES


def test_as_many_as_fit_are_granted_in_order() -> None:
    buffers = MemoryBudget(100)
    assert [memory.flat.size for memory in buffers.take([40, 50, 20, 10])] == [40, 50]
    assert buffers.take([20, 10]) == []
    assert [memory.flat.size for memory in buffers.take([10])] == [10]
    assert buffers.peak == 100


def test_what_is_given_back_is_used_again() -> None:
    buffers = MemoryBudget(100)
    first = buffers.take([50, 50])
    buffers.give(first)
    assert {id(memory) for memory in buffers.take([50, 50])} == {id(memory) for memory in first}


def test_spare_memory_of_another_size_makes_room() -> None:
    buffers = MemoryBudget(100)
    buffers.give(buffers.take([60]))
    assert len(buffers.take([70, 30])) == 2
    assert buffers.peak == 100


def test_the_next_budget_uses_what_the_last_one_leaves() -> None:
    left = SpareMemory()
    first = MemoryBudget(100, others=left)
    taken = first.take([40, 40])
    first.give(taken)
    first.close()
    second = MemoryBudget(90, others=left)
    assert second.peak == 80
    assert {id(memory) for memory in second.take([40, 40])} == {id(memory) for memory in taken}
    assert (second.take([20]), second.peak) == ([], 80)


def test_only_fitting_memory_is_handed_on() -> None:
    left = SpareMemory()
    first = MemoryBudget(100, others=left)
    first.give(first.take([40, 40, 20]))
    first.close()
    second = MemoryBudget(50, others=left)
    assert second.peak <= 50
    assert [memory.flat.size for memory in second.take([30, 20])] == [30, 20]
    assert second.peak == 50
    second.give(second.take([]))
    second.close()
    # Buffers of another codec have other room after them.
    assert MemoryBudget(100, lambda size: size + 8, others=left).peak == 0


def test_memory_that_is_handed_on_makes_room() -> None:
    left = SpareMemory()
    first = MemoryBudget(100, others=left)
    first.give(first.take([60]))
    first.close()
    second = MemoryBudget(100, others=left)
    assert len(second.take([70, 30])) == 2
    assert second.peak == 100
    left.clear()


def test_waiting_ends_when_there_is_room_for_one() -> None:
    buffers = MemoryBudget(100)
    held = buffers.take([60, 40])
    giver = Thread(target=buffers.give, args=(held[1:],))
    giver.start()
    assert [memory.flat.size for memory in buffers.take([40, 40], wait=True)] == [40]
    giver.join()


def test_a_record_starts_with_the_address_of_its_bytes() -> None:
    (memory,) = MemoryBudget(8).take([8])
    assert memory.record[0] == memory.start == memory.flat.__array_interface__["data"][0]


def test_what_can_never_fit_is_refused() -> None:
    with pytest.raises(Refused, match="does not fit"):
        MemoryBudget(100).take([101], wait=True)


def test_nobody_waits_for_a_run_that_has_failed() -> None:
    buffers = MemoryBudget(100)
    buffers.take([100])
    buffers.stop()
    with pytest.raises(Stopped):
        buffers.take([1], wait=True)


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system takes nothing back")
def test_memory_that_makes_room_goes_back_although_its_neighbours_stay() -> None:
    buffers = MemoryBudget(1 << 20)
    first, second = buffers.take([512 << 10] * 2)
    first.flat[:], second.flat[:] = 1, 2
    buffers.give([first])
    assert len(buffers.take([256 << 10])) == 1
    assert not first.flat.any(), "its pages are fresh ones"
    assert (second.flat == 2).all()


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system takes nothing back")
def test_memory_that_makes_room_goes_back_although_someone_still_refers_to_it() -> None:
    """A thread that has given a buffer back may not have left the function that knew it."""
    buffers = MemoryBudget(4 << 20)
    (memory,) = buffers.take([4 << 20])
    memory.flat[:] = 7
    buffers.give([memory])
    assert len(buffers.take([3 << 20])) == 1
    assert not memory.flat.any()


def test_room_behind_a_buffer_counts() -> None:
    buffers = MemoryBudget(100, lambda size: size + size // 10)
    first, second = buffers.take([40, 50, 2])
    assert (first.flat.size, first.room.size, second.room.size) == (40, 44, 55)
    assert first.room.ctypes.data == first.flat.ctypes.data == first.start
    assert buffers.peak == 99
    buffers.give([first])
    assert buffers.take([40])[0] is first
    assert buffers.take([2]) == []


def test_slabs_count_when_they_are_taken() -> None:
    buffers = MemoryBudget(100)
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
    buffers = MemoryBudget(1 << 20)
    buffers.count([1 << 20])
    memory.count(1 << 20)
    buffers.give([memory])
    assert _resident(memory.start) == 0


def _resident(start: int) -> int:
    """Bytes that a mapping has in memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        low, _, rest = line.partition("-")
        if rest and low.strip("0123456789abcdef") == "" and int(low, 16) <= start < int(rest.split()[0], 16):
            return next(int(more.split()[1]) << 10 for more in lines if more.startswith("Rss:"))
    raise AssertionError(f"nothing is mapped at {start:x}")
