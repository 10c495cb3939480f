"""Meter: how far a run is, in bytes read and written of all its passes, out of those that its plan predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from reblock.model import Traffic

#: Told the bytes read and written so far by all passes, and all there will be.
Progress = Callable[[int, int], None]


class Meter:
    """Adds up what the passes of a run have done, and tells somebody.

    The engine counts elements: each arrives once in a pass, and is written once. What the plan predicts for a pass,
    in bytes, is spread over them, so that the sum ends where the plan says, whatever is read more than once. Of boxes
    that an earlier attempt has finished some elements may arrive again; they count once.
    """

    def __init__(self, traffic: Sequence[tuple[Traffic, Traffic]], elements: int, progress: Progress) -> None:
        """What each pass reads and writes, and how many elements the array has."""
        self.whole = sum(side.bytes for sides in traffic for side in sides)
        """All bytes that there will be."""
        self._bytes = [side.bytes for sides in traffic for side in sides]
        self._elements, self._progress = elements, progress
        # Of each pass what has arrived, and what is written.
        self._done = [0] * len(self._bytes)
        self._lock = Lock()

    def begin(self, finished: Sequence[float]) -> None:
        """Parts of the passes that an earlier attempt has finished."""
        self._done = [round(self._elements * part) for part in finished for _ in range(2)]
        self(0, 0, 0)

    def __call__(self, number: int, arrived: int, written: int) -> None:
        """Elements of a pass have arrived, or were written."""
        with self._lock:
            self._done[2 * number] = min(self._done[2 * number] + arrived, self._elements)
            self._done[2 * number + 1] = min(self._done[2 * number + 1] + written, self._elements)
            pairs = zip(self._bytes, self._done, strict=True)
            done = sum(size * part // self._elements for size, part in pairs) if self._elements else self.whole
        self._progress(done, self.whole)
