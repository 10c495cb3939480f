"""Watch: what a run tells while it runs, and what it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reblock.engine.source_state import Seen
from reblock.model import Ledger

#: Called with the number of a pass, and how many of its elements have just arrived, or have just been written.
Progress = Callable[[int, int, int], None]
#: Asked at moments when a run can be stopped. Ctrl-C must end here and not as an exception out of nowhere: Python's
#: own locks are left locked by one.
Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class Watch:
    """What a run tells, and what it is told, while it runs."""

    progress: Progress | None = None
    """Told how far the passes are."""
    cancelled: Cancelled = lambda: False
    """Whether to stop."""
    ledger: Ledger | None = None
    """Remembers finished write boxes."""
    digest: bool = True
    """Whether to take digest sums."""
    seen: Seen | None = None
    """What the files of the source looked like at the start."""

    def tell(self, number: int, arrived: int, written: int) -> None:
        """Elements of a pass have arrived, or were written."""
        if self.progress is not None:
            self.progress(number, arrived, written)

    def of_pass(self, number: int) -> Watch:
        """For one pass of several: only the first reads the source."""
        return replace(self, seen=None) if number else self
