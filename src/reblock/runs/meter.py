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

    def __init__(self, traffic: Sequence[tuple[Traffic, Traffic]], elements: int, progress: Progress) -> None:
        """`passes` are the bytes that each pass reads and writes; `elements` is the size of the array."""
        self.whole = sum(side.bytes for sides in traffic for side in sides)
        """The total number of bytes."""
        self._bytes = [side.bytes for sides in traffic for side in sides]
        self._elements, self._progress = elements, progress
        # For each pass, the elements that have arrived and those that are written.
        self._done = [0] * len(self._bytes)
        self._lock = Lock()

    def begin(self, finished: Sequence[float]) -> None:
        """Set the shares of the passes that an earlier attempt has finished."""
        self._done = [round(self._elements * part) for part in finished for _ in range(2)]
        self(0, 0, 0)

    def __call__(self, number: int, arrived: int, written: int) -> None:
        """Count elements of a pass that have arrived or were written."""
        with self._lock:
            self._done[2 * number] = min(self._done[2 * number] + arrived, self._elements)
            self._done[2 * number + 1] = min(self._done[2 * number + 1] + written, self._elements)
            pairs = zip(self._bytes, self._done, strict=True)
            done = sum(size * part // self._elements for size, part in pairs) if self._elements else self.whole
        self._progress(done, self.whole)
