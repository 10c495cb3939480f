"""The nouns that planner, engine and storage share: frozen dataclasses and protocols."""

from reblock.model.codec import Codec, Stage
from reblock.model.dataset import Dimension, GroupSchema, TableSchema, Tree, TreeFormat, TreeStore
from reblock.model.device import Device
from reblock.model.execution import PIECE_BYTES, Execution
from reblock.model.layout import Access, Layout
from reblock.model.ledger import Finished, Ledger, Sums
from reblock.model.medium import Medium, ReadHandle, Status, WriteHandle
from reblock.model.pattern import AccessClass, AccessPattern, Alignment
from reblock.model.plan import Cost, Pass, Plan, Traffic
from reblock.model.problem import Problem
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema, clear_padding, element
from reblock.model.store import (
    Bytes,
    ChunkLimited,
    ChunkLimits,
    Composite,
    Decoder,
    Divisible,
    EmptyCreator,
    Extent,
    Flat,
    Foreseeable,
    Format,
    Index,
    Measurable,
    ObjectBound,
    Read,
    Replaceable,
    Scattered,
    Scratch,
    Store,
    TransferMode,
    Updatable,
    fresh,
)

__all__ = [
    "NO_RECORD",
    "PIECE_BYTES",
    "Access",
    "AccessClass",
    "AccessPattern",
    "Alignment",
    "Bytes",
    "ChunkLimited",
    "ChunkLimits",
    "Codec",
    "Composite",
    "Cost",
    "Decoder",
    "Device",
    "Dimension",
    "Divisible",
    "EmptyCreator",
    "Execution",
    "Extent",
    "Finished",
    "Flat",
    "Foreseeable",
    "Format",
    "GroupSchema",
    "Index",
    "Layout",
    "Ledger",
    "Measurable",
    "Medium",
    "ObjectBound",
    "Pass",
    "Plan",
    "Problem",
    "Read",
    "ReadHandle",
    "Record",
    "Replaceable",
    "Roots",
    "Scattered",
    "Schema",
    "Scratch",
    "Stage",
    "Status",
    "Store",
    "Sums",
    "TableSchema",
    "Traffic",
    "TransferMode",
    "Tree",
    "TreeFormat",
    "TreeStore",
    "Updatable",
    "WriteHandle",
    "clear_padding",
    "element",
    "fresh",
]
