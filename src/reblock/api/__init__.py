"""The Python interface: the one place that joins planner, engine and storage."""

from reblock.api.array import Array, open
from reblock.api.compare import Verdict, info, verify
from reblock.api.job import DEFAULT_MEMORY, Job, plan, repartition, run
from reblock.api.unfinished import Unfinished, clean, status

__all__ = [
    "DEFAULT_MEMORY",
    "Array",
    "Job",
    "Unfinished",
    "Verdict",
    "clean",
    "info",
    "open",
    "plan",
    "repartition",
    "run",
    "status",
    "verify",
]
