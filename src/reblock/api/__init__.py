"""The Python interface: the one place that joins planner, engine and storage."""

from reblock.api.array import DEFAULT_MEMORY, Array, open
from reblock.api.compare import Difference, Verdict, info, verify
from reblock.api.job import Job, check, plan, repartition, run
from reblock.api.resumption import find_job, resume
from reblock.runs.unfinished import Unfinished, clean, status

__all__ = [
    "DEFAULT_MEMORY",
    "Array",
    "Difference",
    "Job",
    "Unfinished",
    "Verdict",
    "check",
    "clean",
    "find_job",
    "info",
    "open",
    "plan",
    "repartition",
    "resume",
    "run",
    "status",
    "verify",
]
