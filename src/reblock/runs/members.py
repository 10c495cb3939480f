"""Members: the processes of a job array, which make one target together, each with its share of the tasks.

::

    .scan.zarr.reblock/journal                 the plan, made once; later everything that is finished
                       member-0000/journal     a segment: the boxes that member 0 has finished, and that it has ended
                       member-0001/journal     …

    member     take the run's lock → begin the run, or read its plan → take the member's own lock → let go of the first
               do the share: tasks by arithmetic from the plan → segment → line "ended"
               has every member ended? → take the run's lock → absorb all segments → publish, as any resumed run does

A member never waits for another's work, because a scheduler may run them one after another. Each writes its line
"ended" before it looks at the others, so at least one sees that all have ended; the run's lock lets only one publish.
Whoever holds the run's lock, and finds no member at work, may absorb the segments and do the rest alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reblock.errors import LockedError, UsageError, option
from reblock.model import Index, Plan
from reblock.model.workspace import Workspace
from reblock.runs.journal import Group, Integers, Journal, join_groups
from reblock.runs.numbers import Numbers

#: The most members of a job array; SLURM allows fewer.
MAX_MEMBERS = 1 << 22
#: The most boxes in one line of a journal that absorbs others.
_MOST_BOXES = 1 << 16
#: Notes in journals: the array exists; the share is done.
CREATED, ENDED = "created", "ended"


@dataclass(frozen=True)
class ArrayMember:
    """One process of a job array."""

    number: int
    """Its number, from 0."""
    count: int
    """Number of members."""

    @classmethod
    def parse(cls, text: str) -> ArrayMember:
        """A member from `i/n`; UsageError if it is not one."""
        first, slash, second = str(text).strip().partition("/")
        if not slash or not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in (first, second)):
            raise UsageError(f"{option('array_task', text)}: use i/n with i from 0 to n - 1, such as 0/4")
        member = cls(int(first), int(second))
        if not 1 <= member.count <= MAX_MEMBERS:
            raise UsageError(f"{option('array_task', text)}: n is from 1 to {MAX_MEMBERS:,}, not {member.count:,}")
        if member.number >= member.count:
            raise UsageError(
                f"{option('array_task', text)}: i is from 0 to {member.count - 1:,}, not {member.number:,}; "
                f"number the tasks of a SLURM array 0-{member.count - 1}"
            )
        return member

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def shares(self, plans: Sequence[Plan]) -> list[range]:
        """Its tasks of each plan; all members together do each task once.

        Consecutive tasks read the same source chunks, so a share is a range. Arrays with fewer tasks than members are
        dealt out in turn, so that not all of them fall to one member.
        """
        dealt, found = 0, []
        for plan in plans:
            tasks = plan.passes[-1].tasks.count
            if tasks >= self.count:
                found.append(range(tasks * self.number // self.count, tasks * (self.number + 1) // self.count))
                continue
            mine = (self.number - dealt) % self.count
            found.append(range(mine, mine + 1) if mine < tasks else range(0))
            dealt += tasks
        return found


@dataclass(frozen=True)
class MemberProgress:
    """How far one member of a job array is."""

    member: int
    """Its number."""
    state: str
    """`running`, `done`, `stopped`, or `waiting` if it has not begun."""
    running: str | None
    """The process that does its share, in words, or None."""
    tasks: int
    """Tasks of its share."""
    finished_boxes: int
    """Write boxes that it has finished."""

    def to_json(self) -> dict[str, Any]:
        """Its part of the document of `reblock status --json`."""
        return asdict(self)


def members_of(journal: Journal) -> int:
    """The number of members of the run with this journal; 0 = it is not a job array."""
    count = journal.header.get("members") or 0
    return count if isinstance(count, int) and 0 < count <= MAX_MEMBERS else 0


def tasks_of(plan: Plan, numbers: range) -> Iterator[Index]:
    """Tasks of a plan by their numbers."""
    return map(plan.passes[-1].tasks.index, numbers)


def boxes_of(plan: Plan, numbers: range) -> Integers:
    """Numbers of the write boxes of some tasks."""
    sweep = plan.passes[-1]
    writes, tasks = sweep.writes, sweep.tasks
    found = [writes.number(box) for task in tasks_of(plan, numbers) for box in writes.touching(tasks.box(task))]
    return np.array(sorted(found), np.uint64)


# ---------------------------------------------------------------- segments
def segments(workspace: Workspace) -> Iterator[tuple[int, Workspace]]:
    """The segments of all members that have begun."""
    for number in workspace.segments():
        yield number, workspace.segment(number)


def unfinished_members(workspace: Workspace, count: int) -> list[int]:
    """Members that have not ended."""
    ended = set()
    for number, segment in segments(workspace):
        with segment.looking() as log:
            journal = Journal.open(log)
            if journal is not None and journal.has(ENDED):
                ended.add(number)
    return [number for number in range(count) if number not in ended]


def require_idle(workspace: Workspace, target: str) -> None:
    """Raise LockedError if a member is at work; with the run's lock held, none can begin."""
    busy = [(number, holder) for number, segment in segments(workspace) if (holder := segment.holder()) is not None]
    if busy:
        names = ", ".join(str(number) for number, _ in busy[:8]) + (", …" if len(busy) > 8 else "")
        raise LockedError(
            f"{target} is being written by a job array: member{'s' if len(busy) > 1 else ''} {names} "
            f"({busy[0][1]}): wait for {'them' if len(busy) > 1 else 'it'}"
        )


def absorb(workspace: Workspace, journal: Journal) -> None:
    """Copy what members have finished into the run's journal; boxes that it names already are left out."""
    known = {number: list[Integers]() for number in range(len(journal.header["boxes"]))}
    for group in journal.groups():
        known[group.number].append(group.boxes)
    have = {number: Numbers.of(np.concatenate(some)) if some else Numbers() for number, some in known.items()}
    for _, segment in segments(workspace):
        with segment.looking() as log:
            found = Journal.open(log)
            for group in _merged(found, have) if found is not None else ():
                journal.append(group.to_json())


def _merged(journal: Journal, known: dict[int, Numbers]) -> Iterator[Group]:
    """The groups of a journal, joined to few, without boxes that are known."""
    waiting: dict[int, list[Group]] = {}
    for group in journal.groups():
        have = known.get(group.number)
        if have is None:
            continue
        old = np.array([box for box in group.boxes.tolist() if box in have] if len(have) else [], np.uint64)
        some = waiting.setdefault(group.number, [])
        some.append(group.without(old) if old.size else group)
        if sum(len(one.boxes) for one in some) >= _MOST_BOXES:
            yield join_groups(waiting.pop(group.number))
    for some in waiting.values():
        joined = join_groups(some)
        if len(joined.boxes):
            yield joined
