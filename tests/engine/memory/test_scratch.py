"""Scratch memory: each thread has its own, and stored bytes go to the smallest buffer that is large enough."""

from __future__ import annotations

import threading
from threading import Thread

from reblock.engine.memory.arena import Arena
from reblock.engine.memory.scratch import STORED, EncodedBufferPool, ScratchBuffers, ScratchPool


def test_coders_are_so_many_and_the_last_one_is_used_again() -> None:
    coders = ScratchPool(2, Arena())
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
    region = Arena()
    one, two = ScratchBuffers(region), ScratchBuffers(region)
    first, second = one("stored", 70_000), two("stored", 70_000)
    first[:], second[:] = 1, 2
    assert one("stored", 60_000) is first
    grown = one("stored", 3 << 20)
    grown[:] = 3
    assert (second == 2).all()


def test_stored_bytes_go_where_they_just_fit() -> None:
    pool = EncodedBufferPool([3 << 20, 2 << 20, 1 << 20], Arena())
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
