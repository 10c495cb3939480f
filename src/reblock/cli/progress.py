"""Progress: a bar on stderr when a person is looking, nothing otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic

#: Told the bytes done so far, and all there are; from any thread.
Tell = Callable[[int, int], None]

_EVERY_SECONDS = 0.05


@contextmanager
def progress(label: str) -> Iterator[Tell | None]:
    """A function to tell progress to, while a bar is shown; None where nobody would see it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=None)
        most, shown = 0, 0.0
        lock = Lock()

        def tell(done: int, whole: int) -> None:
            nonlocal most, shown
            with lock:
                # Threads may arrive out of order; a bar never goes back.
                most, now = max(most, done), monotonic()
                if now - shown < _EVERY_SECONDS and most < whole:
                    return
                shown = now
            bar.update(task, completed=min(most, whole), total=whole)

        yield tell
