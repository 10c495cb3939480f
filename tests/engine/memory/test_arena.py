"""The arena: buffers are private, start on pages, and share huge pages."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from reblock.engine.memory.budget import MemoryBudget
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES


@pytest.mark.parametrize("size", [DIRECT_BYTES, 100_001, (2 << 20) - 1, 2 << 20, 3_000_001])
def test_large_buffers_start_on_pages_and_do_not_overlap(size: int) -> None:
    taken = MemoryBudget(64 << 20).take([size] * 7)
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
    (memory,) = MemoryBudget(64 << 20).take([size])
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, flags = line.split()[:2]
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= memory.start < high:
            assert flags == "rw-p", line
            return
    pytest.fail("the buffer is not mapped")


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no huge pages")
def test_huge_pages_are_asked_for_until_they_come_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 1e-4, 1.0, 1.1])
    monkeypatch.setattr("reblock.engine.memory.arena.thread_time", lambda: next(seconds))
    taken = MemoryBudget(64 << 20).take([4 << 20] * 4)
    advised = [{"hg", "nh"} & _flags(memory.start) for memory in taken]
    assert advised == [{"hg"}, {"nh"}, {"nh"}, {"nh"}]


def _flags(start: int) -> set[str]:
    """The kernel's flags of a mapping."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        low, _, rest = line.partition("-")
        if rest and low.strip("0123456789abcdef") == "" and int(low, 16) <= start < int(rest.split()[0], 16):
            return next(set(more.split()[1:]) for more in lines if more.startswith("VmFlags:"))
    raise AssertionError(f"nothing is mapped at {start:x}")
