"""Pass and Plan: how a problem is solved; Traffic and Cost: what that takes.

Every strategy of the papers is a point of one family. A pass sweeps the array once ::

    for task in T:                         independent of all others
        for box in R ∪ T, in axis order:   read it, scatter it
            keep what cannot be written yet
            write each box of W ∪ T that is now complete

so R (read grid), W (write grid), T (task grid), the axis order and the access of each side say all there is.
A plan is one pass, or several through intermediate arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from reblock.geometry import Grid
from reblock.model.layout import Access, Layout
from reblock.units import format_size


@dataclass(frozen=True)
class Pass:
    """One sweep over the array."""

    read: Grid
    """R: boxes that are read together."""
    write: Grid
    """W: boxes that are written together, once each."""
    tasks: Grid
    """T: pieces of work that share nothing."""
    order: tuple[int, ...]
    """Axes of the sweep inside a task, outermost first."""
    read_access: Access
    """How the source is touched."""
    write_access: Access
    """How the target is touched."""
    coalesced: int = 0
    """How many of the innermost axes on disk are read in full, gaps between runs and all."""

    @cached_property
    def reads(self) -> Grid:
        """R ∪ T: the boxes really read."""
        return self.read.refine(self.tasks)

    @cached_property
    def writes(self) -> Grid:
        """W ∪ T: the boxes really written."""
        return self.write.refine(self.tasks)

    def to_json(self) -> dict[str, Any]:
        return {
            "read_chunks": self.read.to_json(),
            "write_chunks": self.write.to_json(),
            "task_chunks": self.tasks.to_json(),
            "order": list(self.order),
            "read_access": str(self.read_access),
            "write_access": str(self.write_access),
            "coalesced": self.coalesced,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], shape: Sequence[int]) -> Pass:
        return cls(
            Grid.from_json(value["read_chunks"], shape),
            Grid.from_json(value["write_chunks"], shape),
            Grid.from_json(value["task_chunks"], shape),
            tuple(value["order"]),
            Access(value["read_access"]),
            Access(value["write_access"]),
            value.get("coalesced", 0),
        )


@dataclass(frozen=True)
class Plan:
    """One pass, or several through intermediate arrays."""

    strategy: str
    """Name of the strategy that proposed it."""
    shape: tuple[int, ...]
    """The array's shape, in target axes."""
    passes: tuple[Pass, ...]
    """In order of execution."""
    scratch: tuple[Layout, ...] = ()
    """Layouts of the intermediate arrays, one fewer than passes."""
    interleaved: bool = False
    """Whether passes that share T run task by task, so that scratch holds one task only."""
    depth: int = 1
    """Units in flight at once; each takes memory beside the write buffers."""
    coders: int = 1
    """Units that are decoded at once, and boxes that are encoded at once: one per core."""
    memory_bytes: int = 0
    """What the engine may allocate: all that the plan needs, and room for writes to lag behind reads."""

    def __repr__(self) -> str:
        passes = "1 pass" if len(self.passes) == 1 else f"{len(self.passes)} passes"
        return f"<reblock Plan: {self.strategy}, {passes}, {format_size(self.memory_bytes)} of memory>"

    def sides(self, source: Layout, target: Layout) -> list[tuple[Pass, Layout, Layout]]:
        """Each pass with the layout it reads and the layout it writes."""
        chain = [source, *self.scratch, target]
        return list(zip(self.passes, chain, chain[1:], strict=False))

    def to_json(self) -> dict[str, Any]:
        """Small, whatever the number of chunks; `from_json` gives the plan back."""
        return {
            "strategy": self.strategy,
            "shape": list(self.shape),
            "passes": [p.to_json() for p in self.passes],
            "scratch": [
                {"chunks": layout.objects.to_json(), "order": list(layout.order), "dtype": layout.dtype.str}
                for layout in self.scratch
            ],
            "interleaved": self.interleaved,
            "depth": self.depth,
            "coders": self.coders,
            "memory_bytes": self.memory_bytes,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Plan:
        shape = tuple(value["shape"])
        return cls(
            value["strategy"],
            shape,
            tuple(Pass.from_json(p, shape) for p in value["passes"]),
            tuple(Layout.raw(s["dtype"], Grid.from_json(s["chunks"], shape), s["order"]) for s in value["scratch"]),
            value["interleaved"],
            value["depth"],
            value.get("coders", value["depth"]),
            value["memory_bytes"],
        )


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one side of a pass does to its storage."""

    opens: int = 0
    """Visits of a box to an object."""
    runs: int = 0
    """Contiguous byte ranges."""
    seeks: int = 0
    """Openings plus runs inside partly touched objects (the thesis' count)."""
    bytes: int = 0
    """Logical (decoded) bytes moved."""

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.opens + other.opens, self.runs + other.runs, self.seeks + other.seeks, self.bytes + other.bytes
        )

    def to_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan takes; the same keys are predicted and measured."""

    opens: int
    """Visits to objects, all passes, both sides."""
    seeks: int
    """Openings plus runs inside partly touched objects."""
    runs: int
    """Contiguous byte ranges."""
    bytes_read: int
    """Logical bytes read, all passes."""
    bytes_written: int
    """Logical bytes written, all passes."""
    read_amplification: float
    """Bytes read from the source over bytes of the array."""
    scratch_bytes: int
    """Largest size of the intermediate arrays at any time."""
    peak_bytes: int
    """Most bytes the engine allocates at once."""
    held_bytes: int
    """Most bytes of elements read and not yet written (the papers' count)."""
    seconds: float
    """Time on the device."""
    write_amplification: float = 1.0
    """Bytes written to the target, padding of its chunks included, over bytes of the array."""

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
