"""The source of a run: its state at the start, and whether it still holds what was read.

The sums of `engine.source_state` show whether a source changed while it was read, or before its run was resumed; then
nothing is published. Where only the times of inodes differ (`chmod`, a hard link, a backup), the bytes may be the same:
the write boxes that were made of such files are read again, and compared with the digest sums in the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any
from uuid import uuid4

import numpy as np

from reblock.engine import View
from reblock.engine.digest.recheck import reread
from reblock.engine.source_state import SourceSnapshot, SourceState
from reblock.engine.watch import Cancelled
from reblock.errors import ChangedError, option
from reblock.model import Layout, ObjectBound, Pass, Sums
from reblock.runs.journal import Integers, JournalPart
from reblock.storage.location import absolute
from reblock.storage.media.registry import medium_of

#: The most files that a message names.
_SHOWN = 3
#: The most write boxes that are remembered as made of touched files; if there are more, all are read again.
_MOST_BOXES = 1 << 20

#: Path, inode, bytes and time of the last change of a file; None if it does not exist.
Files = list[tuple[str, list[int] | None]]


class Source:
    """The source as it was when the run began."""

    def __init__(self, view: View, cancelled: Cancelled = lambda: False) -> None:
        self.location = view.store.location
        self._view = view
        self.files = look(view.store.described_by)
        self.state = SourceState(view, cancelled)
        # Nothing tells whether two objects hold the same elements, so each run from one is a problem of its own.
        self._object = uuid4().hex if isinstance(view.store, ObjectBound) else ""

    @property
    def is_object(self) -> bool:
        """Whether it is an object of this process, so that the run cannot be resumed."""
        return bool(self._object)

    @property
    def identity(self) -> dict[str, Any]:
        """The state that must be the same for a run to continue."""
        start = self.state.start
        chunks = {"present": start.present, "sum": f"{start.firm:016x}"}
        found: dict[str, Any] = {"files": [one for _, one in self.files], "chunks": chunks}
        return {**found, "object": self._object} if self._object else found

    @property
    def times(self) -> dict[str, Any]:
        """The state that may differ if the bytes do not, for the journal of a new run."""
        return {"sum": f"{self.state.start.full:016x}", "newest_ns": self.state.start.newest_ns}

    def check(self) -> None:
        """Raise ChangedError if a file that describes the source has changed."""
        if changed := first_change(self.files):
            raise ChangedError(f"{self.location}: {changed} changed during the run, so the result would mix two arrays")

    def describe_change(self, before: Mapping[str, Any], began_ns: int) -> str:
        """The changes to the files, in words, since a run began: with this identity, and this newest change."""
        now = self.identity
        pairs = zip_longest(self.files, before["files"])
        found = [new[0] for new, old in pairs if new is not None and new[1] != old]
        more = now["chunks"]["present"] - before["chunks"]["present"]
        if before["chunks"] != now["chunks"]:
            found += map(absolute, self.state.touched(self.state.again(began_ns), began_ns))
        return files_in_words(list(dict.fromkeys(found)), more)

    # ---------------------------------------------------------------- the end
    def look_again(self, began: Mapping[str, Any]) -> SourceSnapshot:
        """The files' state after all reads; files touched since the run began, with these `times`, are suspect."""
        return self.state.again(began["newest_ns"])

    def is_suspect(self, now: SourceSnapshot, began: Mapping[str, Any]) -> bool:
        """Whether `settle` has to read elements again: the same files, but other times."""
        return now.firm == self.state.start.firm and f"{now.full:016x}" != began["sum"]

    def settle(
        self,
        now: SourceSnapshot,
        began: Mapping[str, Any],
        journal: JournalPart,
        sweep: Pass,
        number: int,
        layout: Layout,
        memory_bytes: int,
        cancelled: Cancelled,
    ) -> list[str]:
        """Notes, if the files still hold what they held when the run began; ChangedError otherwise.

        `now` is their state after all reads, `began` the `times` of the run. `sweep` is the pass, with that number,
        that has written an array of this layout.
        """
        self.check()
        start = self.state.start
        if now.firm != start.firm:
            what = files_in_words(self.state.differing(now), now.present - start.present)
            raise ChangedError(f"{self.location} changed during the run ({what}): nothing was published")
        if f"{now.full:016x}" == began["sum"]:
            return []
        what = f"{files_in_words(self.state.touched(now, began['newest_ns']))} touched since the run began"
        read = 0
        # If no file is suspect, the clock was set back, and any file may have changed.
        for some in _recorded(journal, number, self._boxes(now.suspects or None, sweep)):
            if some is None:
                nothing = f"{option('digest', False)} left nothing to compare the bytes with"
                raise ChangedError(f"{self.location}: {what}, and {nothing}")
            for same in reread(self._view, sweep, layout, some, memory_bytes=memory_bytes, cancelled=cancelled):
                read += 1
                if not same:
                    raise ChangedError(
                        f"{self.location}: {what}, and reading them again gave other elements: nothing was published"
                    )
        return [f"{what}: {read:,} write boxes were read again, and are the same"]

    def _boxes(self, suspects: tuple[int, ...] | None, sweep: Pass) -> Integers | None:
        """Write boxes that are made of suspect files; None = all."""
        if suspects is None or self.state.shared:
            return None
        found: set[int] = set()
        for number in suspects:
            box = self._view.layout.objects.box(self._view.object_at(number))
            found.update(map(sweep.writes.number, sweep.writes.touching(box)))
            if len(found) > _MOST_BOXES:
                return None
        return np.array(sorted(found), np.uint64)


def look(paths: Sequence[str]) -> Files:
    """The state of files. Device numbers are left out, because they change with the next boot."""
    seen: Files = []
    for path in map(absolute, paths):
        try:
            found = medium_of(path).status(path)
        except FileNotFoundError:
            seen.append((path, None))
        else:
            seen.append((path, [found.identity, found.size, found.modified_ns]))
    return seen


def first_change(files: Files) -> str | None:
    """The first of some files whose state has changed."""
    now = look([path for path, _ in files])
    return next((path for (path, before), (_, after) in zip(files, now, strict=True) if before != after), None)


def _recorded(journal: JournalPart, number: int, boxes: Integers | None) -> Iterator[Sequence[tuple[int, Sums]] | None]:
    """Boxes of a pass with their digest sums, grouped as they became durable; None if sums were not kept."""
    for group in journal.groups(number):
        chosen = np.ones(len(group.boxes), bool) if boxes is None else np.isin(group.boxes, boxes)
        if not chosen.any():
            continue
        if group.sums is None:
            yield None
        else:
            yield [
                (int(box), Sums(*map(int, sums)))
                for box, sums in zip(group.boxes[chosen], group.sums[chosen], strict=True)
            ]


def files_in_words(paths: Sequence[str], more: int = 0) -> str:
    """Some files, and how many more or fewer there are than at the start."""
    words = [", ".join(paths[:_SHOWN]) or ("" if more else "files")]
    if len(paths) > _SHOWN:
        words[0] += f" and {len(paths) - _SHOWN:,} more"
    if more:
        words.append(
            f"there {'is' if abs(more) == 1 else 'are'} {abs(more):,} {'more' if more > 0 else 'fewer'} chunk "
            f"file{'s' if abs(more) != 1 else ''} than at the start"
        )
    return "; ".join(filter(None, words))
