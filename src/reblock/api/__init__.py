"""The Python interface: the one place that joins planner, engine and storage.

Names are loaded on first use, because `verify` needs other modules than `run`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from reblock.posix import require_posix

if TYPE_CHECKING:
    from reblock.advisor.advice import Advice
    from reblock.api.advice import advise
    from reblock.api.array import Array, open
    from reblock.api.array_tasks import divide
    from reblock.api.blocks import merge, merge_format, split, split_format
    from reblock.api.compare import info, verify
    from reblock.api.compare_datasets import DatasetVerdict
    from reblock.api.connecting import connect
    from reblock.api.creating import create
    from reblock.api.dataset import Dataset, open_dataset
    from reblock.api.dataset_job import DatasetJob
    from reblock.api.extract.extracting import extract
    from reblock.api.extract.reading import Extraction
    from reblock.api.formats import FormatInfo, formats
    from reblock.api.job import Job
    from reblock.api.machine import DEFAULT_MEMORY
    from reblock.api.planfile import load_plan, save_plan
    from reblock.api.planning import plan, plan_array
    from reblock.api.recording import record
    from reblock.api.replicas.changing import repair_replicas, update_replicas
    from reblock.api.replicas.making import create_replicas
    from reblock.api.resumption import find_job, resume
    from reblock.api.running import adopt, check, repartition, run
    from reblock.api.simulating import simulate
    from reblock.api.verdict import Difference, Verdict
    from reblock.engine.dataset_report import DatasetReport
    from reblock.runs.unfinished import Unfinished, clean, status

__all__ = [
    "DEFAULT_MEMORY",
    "Advice",
    "Array",
    "Dataset",
    "DatasetJob",
    "DatasetReport",
    "DatasetVerdict",
    "Difference",
    "Extraction",
    "FormatInfo",
    "Job",
    "Unfinished",
    "Verdict",
    "adopt",
    "advise",
    "check",
    "clean",
    "connect",
    "create",
    "create_replicas",
    "divide",
    "extract",
    "find_job",
    "formats",
    "info",
    "load_plan",
    "merge",
    "merge_format",
    "open",
    "open_dataset",
    "plan",
    "plan_array",
    "record",
    "repair_replicas",
    "repartition",
    "resume",
    "run",
    "save_plan",
    "simulate",
    "split",
    "split_format",
    "status",
    "update_replicas",
    "verify",
]

require_posix()

_HOMES = {
    **dict.fromkeys(("Array", "open"), "reblock.api.array"),
    "DEFAULT_MEMORY": "reblock.api.machine",
    "divide": "reblock.api.array_tasks",
    **dict.fromkeys(("merge", "merge_format", "split", "split_format"), "reblock.api.blocks"),
    "extract": "reblock.api.extract.extracting",
    **dict.fromkeys(("FormatInfo", "formats"), "reblock.api.formats"),
    "Extraction": "reblock.api.extract.reading",
    **dict.fromkeys(("info", "verify"), "reblock.api.compare"),
    **dict.fromkeys(("Difference", "Verdict"), "reblock.api.verdict"),
    "DatasetReport": "reblock.engine.dataset_report",
    "DatasetVerdict": "reblock.api.compare_datasets",
    "DatasetJob": "reblock.api.dataset_job",
    "Job": "reblock.api.job",
    "connect": "reblock.api.connecting",
    "create": "reblock.api.creating",
    **dict.fromkeys(("Dataset", "open_dataset"), "reblock.api.dataset"),
    **dict.fromkeys(("load_plan", "save_plan"), "reblock.api.planfile"),
    **dict.fromkeys(("plan", "plan_array"), "reblock.api.planning"),
    "Advice": "reblock.advisor.advice",
    "advise": "reblock.api.advice",
    "record": "reblock.api.recording",
    "create_replicas": "reblock.api.replicas.making",
    **dict.fromkeys(("repair_replicas", "update_replicas"), "reblock.api.replicas.changing"),
    **dict.fromkeys(("adopt", "check", "repartition", "run"), "reblock.api.running"),
    **dict.fromkeys(("find_job", "resume"), "reblock.api.resumption"),
    "simulate": "reblock.api.simulating",
    **dict.fromkeys(("Unfinished", "clean", "status"), "reblock.runs.unfinished"),
}


def __getattr__(name: str) -> object:
    """Load a name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
