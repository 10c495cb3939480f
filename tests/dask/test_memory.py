"""Memory of buffers is counted, lent and returned, and garbage collection at any moment blocks nothing."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np

from reblock.dask import tally
from reblock.dask.memory import BufferMemory, Lender

MIB = 1 << 20
BYTES = np.dtype("u1")


def ends(action: Callable[[], Any]) -> bool:
    """Whether an action ends; the thread that is left behind does not keep the program alive."""
    thread = Thread(target=action, daemon=True)
    thread.start()
    thread.join(30)
    return not thread.is_alive()


def test_memory_is_counted_and_never_waits() -> None:
    memory = BufferMemory()
    assert memory.take(60, 100)
    assert not memory.take(60, 100)
    memory.give(20)
    assert memory.take(60, 100)
    assert (memory.used, memory.peak) == (100, 100)


def test_memory_that_is_returned_is_lent_again_up_to_a_limit() -> None:
    lender = Lender()
    lender.keep_bytes = 3 * MIB
    arrays = [lender.empty((2, MIB), BYTES) for _ in range(2)]
    places = {array.ctypes.data for array in arrays}
    del arrays
    # Of four MiB, three may be kept, so one block of two.
    assert lender.empty((2 * MIB,), BYTES).ctypes.data in places
    assert lender._kept_bytes <= lender.keep_bytes
    lender.forget()
    assert (lender._kept_bytes, lender._free) == (0, {})


def test_views_keep_lent_memory() -> None:
    lender = Lender()
    lender.keep_bytes = 8 * MIB
    view = lender.empty((2, MIB), BYTES)[1]
    view[:] = 7
    other = lender.empty((2, MIB), BYTES)
    other[:] = 1
    assert (view == 7).all()


def test_memory_is_returned_while_the_same_thread_takes_some() -> None:
    lender = Lender()
    lender.keep_bytes = 8 * MIB

    def act() -> None:
        with lender._lock:  # as inside `empty`, when garbage collection runs there
            lender._give(mmap.mmap(-1, MIB))
        assert lender._kept_bytes == 0
        lender.empty((2, MIB), BYTES)
        # What could not be taken back at once was taken back by the next call.
        assert lender._kept_bytes >= MIB

    assert ends(act)
    assert not lender._returned


def test_a_report_is_collected_while_the_same_thread_reports() -> None:
    def act() -> None:
        ring: list[Any] = [tally.Collector()]
        ring.append(ring)
        del ring
        with tally._lock:  # as inside `post`, when garbage collection runs there
            gc.collect()

    assert ends(act)
