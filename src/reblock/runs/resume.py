"""Resume: find the write boxes of an earlier attempt that can be trusted.

The journal says which boxes were finished; whether they still exist is checked. A box that is a file of its own is
trusted if the file's state has not changed. Every other box is read back, and its digest sums are compared with the
journal's. A box that fails is not an error: it is simply not finished.
"""

from __future__ import annotations

import numpy as np

from reblock.engine.digest.recheck import recheck
from reblock.engine.watch import Cancelled
from reblock.errors import StorageError
from reblock.model import Pass, Plan, Sums
from reblock.runs.group_commit import ArrayLedger, Destination, destination_of, stamps
from reblock.runs.journal import Group, Integers, JournalPart
from reblock.runs.numbers import Numbers
from reblock.runs.scratch import KeptScratch, are_few, remove_files, unfinished


def find_finished(
    journal: JournalPart,
    number: int,
    sweep: Pass,
    side: Destination,
    memory_bytes: int,
    cancelled: Cancelled,
    needless: Integers | None = None,
    *,
    settled: bool = False,
) -> tuple[Numbers, Sums, int]:
    """Finished boxes of a pass, the sums of their elements, and the number that did not match the journal.

    Boxes that are no longer needed are not checked. Boxes that were `settled` just now are not read back.
    """
    good: list[Integers] = []
    sums: list[Integers] = []
    bad: list[Integers] = []
    for group in journal.groups(number):
        asked = group if needless is None else group.without(needless)
        if cancelled():
            raise KeyboardInterrupt
        holds = _holds(asked, sweep, side, memory_bytes, cancelled, settled=settled)
        good.append(asked.boxes[holds])
        bad.append(asked.boxes[~holds])
        if asked.sums is not None:
            sums.append(asked.sums[holds])
    if not good:
        return Numbers(), Sums(), 0
    boxes, places = np.unique(np.concatenate(good), return_index=True)
    total = Sums()
    if sums:
        first, second = np.concatenate(sums)[places].sum(axis=0, dtype=np.uint64).tolist()
        total = Sums(first, second)
    lost = np.setdiff1d(np.concatenate(bad), boxes)
    if side.alone:
        # The wrong file may be longer than the one that will be written.
        remove_files(side.medium, _paths(side, sweep, lost))
    return Numbers.of(boxes), total, int(lost.size)


def _holds(
    group: Group, sweep: Pass, side: Destination, memory_bytes: int, cancelled: Cancelled, *, settled: bool
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    holds = np.zeros(group.boxes.size, bool)
    if side.alone and group.stamps is not None:
        holds = stamps(side.medium.stamps(_paths(side, sweep, group.boxes))) == group.stamps
    elif group.sums is None or settled:
        return ~holds
    if group.sums is not None:
        places = np.flatnonzero(~holds).tolist()
        asked = [(int(group.boxes[at]), Sums(*map(int, group.sums[at]))) for at in places]
        holds[places] = list(recheck(side.store, sweep, asked, memory_bytes=memory_bytes, cancelled=cancelled))
    return holds


def _paths(side: Destination, sweep: Pass, boxes: Integers) -> list[str]:
    """The files of boxes that have one each."""
    indices = np.stack(np.unravel_index(boxes.astype(np.int64), sweep.writes.counts), axis=1).tolist()
    return [side.store.place(tuple(index)).path for index in indices]


def trust_scratch(
    plan: Plan, journal: JournalPart, scratch: KeptScratch, ledger: ArrayLedger, cancelled: Cancelled
) -> int:
    """Check the remaining boxes of the passes before the last; returns the number that did not match the journal.

    Goes backwards: a box that is needed only for finished boxes is no longer needed, whatever its state.
    """
    failed = 0
    dropped = journal.dropped()
    begun = journal.begun()
    for number in reversed(range(len(plan.passes) - 1)):
        if plan.interleaved:
            continue
        sweep = plan.passes[number]
        if len(ledger.finished(number + 1)) == plan.passes[number + 1].writes.count:
            ledger.trust(number, Numbers([(0, sweep.writes.count)]), Sums())
        elif number in dropped:
            ledger.forget(number)
        elif number in begun:
            try:
                side = destination_of(scratch.reopen(number), sweep, scratch.folder_of(number))
            except StorageError:
                ledger.forget(number)
                continue
            needless = _needless(plan, number, ledger)
            finished, sums, bad = find_finished(journal, number, sweep, side, plan.memory_bytes, cancelled, needless)
            failed += bad
            ledger.trust(number, finished | Numbers.of(needless), sums)
            if side.alone and are_few(plan, number):
                open_boxes = np.flatnonzero(unfinished(sweep.writes, finished)).astype(np.uint64)
                remove_files(side.medium, _paths(side, sweep, open_boxes))
    return failed


def _needless(plan: Plan, number: int, ledger: ArrayLedger) -> Integers:
    """Boxes of a pass that are needed only for finished boxes."""
    if not are_few(plan, number):
        return np.empty(0, np.uint64)
    after = plan.passes[number + 1].writes
    needed = plan.passes[number].writes.meeting(after, unfinished(after, ledger.finished(number + 1)))
    return np.flatnonzero(~needed).astype(np.uint64)
