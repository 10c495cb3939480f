"""The engine: carries out a plan that it did not make, on storage that it does not know."""

from reblock.engine.compare import ComparedArray, DifferingElement, compare
from reblock.engine.gather import gather, reading_bytes
from reblock.engine.pipeline.chain import ScratchArrays, execute_plan
from reblock.engine.pipeline.crew import Crew
from reblock.engine.pipeline.execute import execute
from reblock.engine.pipeline.share import Delivery, Site
from reblock.engine.reference import execute_in_order
from reblock.engine.region import Step, load, load_parts, sampled
from reblock.engine.report import Measured, Report, Times, measured_cost, total_times
from reblock.engine.view import View
from reblock.engine.watch import Watch

__all__ = [
    "ComparedArray",
    "Crew",
    "Delivery",
    "DifferingElement",
    "Measured",
    "Report",
    "ScratchArrays",
    "Site",
    "Step",
    "Times",
    "View",
    "Watch",
    "compare",
    "execute",
    "execute_in_order",
    "execute_plan",
    "gather",
    "load",
    "load_parts",
    "measured_cost",
    "reading_bytes",
    "sampled",
    "total_times",
]
