"""One member of a job array, as a process of its own that tests kill."""

from __future__ import annotations

import sys

import reblock


def work(source: str, target: str, task: str, options: dict[str, object]) -> None:
    """Do a share; the exit code is 0 if that succeeds."""
    report = reblock.run(reblock.plan(source, target, **options), array_task=task)  # type: ignore[arg-type]
    sys.exit(0 if report.array_task is not None else 1)
