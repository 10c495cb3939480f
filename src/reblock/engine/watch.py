"""Watch: connects a running pass with its caller: progress, cancellation, ledger and state of the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from reblock.engine.memory.budget import SpareMemory
from reblock.engine.source_state import SourceState
from reblock.model import Ledger

#: Called with the number of a pass, and the numbers of elements that have just arrived, and have just been written.
Progress = Callable[[int, int, int], None]
#: Returns whether to stop; called whenever a run can be stopped. Ctrl-C must arrive here: as an exception it could
#: leave locks of Python locked.
Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class Watch:
    """The connections of a running pass to its caller."""

    progress: Progress | None = None
    """Called with the progress of passes."""
    cancelled: Cancelled = lambda: False
    """Whether to stop."""
    ledger: Ledger | None = None
    """Records finished write boxes."""
    digest: bool = True
    """Whether to take digest sums."""
    source: SourceState | None = None
    """State of the source's files at the start of the run."""
    spare: SpareMemory | None = None
    """Memory that passes leave to each other; None = each takes its own."""

    def tell(self, number: int, arrived: int, written: int) -> None:
        """Report elements of a pass that have arrived, or were written."""
        if self.progress is not None:
            self.progress(number, arrived, written)

    def of_pass(self, number: int) -> Watch:
        """The watch of one pass of several: only the first reads the source."""
        return replace(self, source=None) if number else self
