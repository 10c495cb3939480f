"""The nouns: what planners, engines and storage adapters say to each other."""

from reblock.model.codec import Codec, Stage
from reblock.model.device import Device
from reblock.model.layout import Access, Layout
from reblock.model.plan import Cost, Pass, Plan, Traffic
from reblock.model.problem import Problem
from reblock.model.schema import Schema
from reblock.model.store import Bytes, Extent, Flat, Format, Index, Read, Store, Way

__all__ = [
    "Access",
    "Bytes",
    "Codec",
    "Cost",
    "Device",
    "Extent",
    "Flat",
    "Format",
    "Index",
    "Layout",
    "Pass",
    "Plan",
    "Problem",
    "Read",
    "Schema",
    "Stage",
    "Store",
    "Traffic",
    "Way",
]
