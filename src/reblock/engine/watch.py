"""Watch: what a run tells while it runs, and what it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reblock.engine.seen import Seen
from reblock.model import Ledger

#: Called with the logical bytes that have just been written.
Progress = Callable[[int], None]
#: Asked at moments when a run can be stopped. Ctrl-C must end here and not as an exception out of nowhere: Python's
#: own locks are left locked by one.
Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class Watch:
    """What a run tells, and what it is told, while it runs."""

    progress: Progress = lambda _: None
    """Told the bytes written."""
    cancelled: Cancelled = lambda: False
    """Whether to stop."""
    ledger: Ledger | None = None
    """Remembers finished write boxes."""
    digest: bool = True
    """Whether to take digest sums."""
    seen: Seen | None = None
    """What the files of the source looked like at the start."""

    def of_pass(self, number: int, count: int) -> Watch:
        """For one pass of several: only the first reads the source, only the last writes the target."""
        return replace(
            self,
            progress=self.progress if number == count - 1 else lambda _: None,
            seen=None if number else self.seen,
        )
