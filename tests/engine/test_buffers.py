"""The byte-counted budget: what fits is granted in order, the rest waits, and what is given back is used again."""

from __future__ import annotations

from threading import Thread

import pytest

from reblock.engine.buffers import Buffers, Stopped
from reblock.errors import Refused


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
