"""Targets that do not record which job made them: check whether one holds what a job would write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from reblock.engine import ComparedArray, View, compare
from reblock.engine.casting import convert
from reblock.engine.view import Array
from reblock.errors import InfeasibleError, MisfitError, StorageError
from reblock.geometry import Box
from reblock.model import Store
from reblock.planner import plan_comparison
from reblock.runs.work import Work


def holds_part(work: Work, store: Store, part: tuple[int, int], cancelled: Callable[[], bool]) -> bool:
    """Whether a part of a stored array, by its number and the number of parts, has the elements that a job would write.

    KeyboardInterrupt if that is cancelled.
    """
    number, count = part
    memory, threads, wanted = work.plan.memory_bytes, work.problem.cores, work.problem.target
    if (store.layout.shape, store.layout.dtype) != (wanted.shape, wanted.dtype):
        return False
    try:
        right = ComparedArray.of(View.whole(store), memory, threads)
        left = _converted(ComparedArray.of(work.source, memory, threads), right, checked=work.source.checked)
        least = left.least_bytes, right.least_bytes
        boxes, reading_bytes = plan_comparison(left.layout, right.layout, least, memory, threads)
        mine = range(boxes.count * number // count, -(-boxes.count * (number + 1) // count))
        for found in compare(left, right, boxes, axes=(), reading_bytes=reading_bytes, numbers=mine):
            if found.differing:
                return False
            if cancelled():
                raise KeyboardInterrupt
    except (StorageError, MisfitError, InfeasibleError):
        # The usual checks of the run describe that better.
        return False
    return True


def _converted(side: ComparedArray, like: ComparedArray, *, checked: bool) -> ComparedArray:
    """A side with the type of the other one."""
    if side.layout.dtype == like.layout.dtype:
        return side

    def load(box: Box, memory_bytes: int) -> Array:
        made = np.empty(box.shape, like.layout.dtype)
        convert(side.load(box, memory_bytes), made, checked=checked, origin=box.start)
        return made

    return replace(side, layout=replace(side.layout, dtype=like.layout.dtype), load=load)
