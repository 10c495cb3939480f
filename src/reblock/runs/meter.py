"""Meter: the progress of a run, in bytes read and written by all passes, out of the plan's prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from reblock.model import Traffic

#: Called with the bytes read and written so far by all passes, and with their total.
Progress = Callable[[int, int], None]


class Meter:
    """Adds up the progress of a run's passes, and reports it.

    The engine counts elements: each arrives once in a pass, and is written once. The bytes that the plan predicts for a
    pass are spread over them, so that the sum ends at the prediction even if something is read more than once. Some
    elements of boxes that an earlier attempt has finished may arrive again; they count once.
    """

    def __init__(self, passes: Sequence[tuple[int, Traffic, Traffic]], progress: Progress) -> None:
        """`passes` are the elements of each pass, and the bytes that it reads and writes."""
        self._elements = [count for count, *_ in passes for _ in range(2)]
        self._bytes = [side.bytes for _, *sides in passes for side in sides]
        self.whole = sum(self._bytes)
        """The total number of bytes."""
        self._progress = progress
        # For each pass, the elements that have arrived and those that are written; and all their bytes.
        self._done = [0] * len(self._bytes)
        self._sum = sum(self._part(place) for place in range(len(self._bytes)))
        self._lock = Lock()

    def _part(self, place: int) -> int:
        """The bytes that one side of a pass has moved; a pass without elements is done."""
        elements = self._elements[place]
        return self._bytes[place] * self._done[place] // elements if elements else self._bytes[place]

    def begin(self, first: int, finished: Sequence[float]) -> None:
        """Set the shares of passes, from the pass `first` on, that an earlier attempt has finished."""
        for number, part in enumerate(finished, first):
            elements = round(self._elements[2 * number] * part)
            self(number, elements, elements)

    def of_array(self, first: int) -> Callable[[int, int, int], None]:
        """Counts elements of the passes of one array, which are numbered from 0."""
        return lambda number, arrived, written: self(first + number, arrived, written)

    def __call__(self, number: int, arrived: int, written: int) -> None:
        """Count elements of a pass that have arrived or were written."""
        with self._lock:
            for place, more in ((2 * number, arrived), (2 * number + 1, written)):
                before = self._part(place)
                self._done[place] = min(self._done[place] + more, self._elements[place])
                self._sum += self._part(place) - before
            done = self._sum
        self._progress(done, self.whole)
