"""Pass and Plan: how a problem is solved; Traffic and Cost: what that takes.

Every strategy of the papers is a point of one family. A pass sweeps the array once ::

    for task in T:                         independent of all others
        for box in R ∪ T, in axis order:   read it, scatter it
            keep what cannot be written yet
            write each box of W ∪ T that is now complete

so R (read grid), W (write grid), T (task grid), the axis order and the access of each side say what is moved, and
every count follows from them. Threads and memory of the engine are the pass's `Execution`. A plan is one pass, or
several through intermediate arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

from reblock.geometry import Grid
from reblock.geometry.axis import MAX_LENGTH
from reblock.geometry.values import boolean, integer, integers, items, members, permutation, text
from reblock.model.documents import read_dtype
from reblock.model.execution import Execution
from reblock.model.layout import Access, Layout
from reblock.units import format_size

#: A value for each end of a pass: of the source, of scratch, of the target.
End = TypeVar("End")

#: Keys of a pass in JSON.
_PASS_KEYS = (
    "read_chunks",
    "write_chunks",
    "task_chunks",
    "order",
    "read_access",
    "write_access",
    "coalesced",
    "execution",
)


@dataclass(frozen=True)
class Pass:
    """One sweep over the array."""

    read: Grid
    """R: boxes that are read together."""
    write: Grid
    """W: boxes that are written together, each once."""
    tasks: Grid
    """T: independent pieces of work."""
    order: tuple[int, ...]
    """Axes of the sweep inside a task, outermost first."""
    read_access: Access
    """How the source is accessed."""
    write_access: Access
    """How the target is accessed."""
    coalesced: int = 0
    """Number of the innermost axes on disk that are read in full, with the gaps between runs."""
    execution: Execution | None = None
    """Threads and memory of the engine; None until the planner has chosen the plan."""

    @cached_property
    def reads(self) -> Grid:
        """R ∪ T: the boxes that are read."""
        return self.read.refine(self.tasks)

    @cached_property
    def writes(self) -> Grid:
        """W ∪ T: the boxes that are written."""
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
            "execution": None if self.execution is None else self.execution.to_json(),
        }

    @classmethod
    def from_json(cls, value: Any, shape: Sequence[int]) -> Pass:
        """Inverse of `to_json` for an array of a shape; UsageError for anything else."""
        found, ndim = members(value, "a pass", _PASS_KEYS), len(shape)
        how = found["execution"]
        return cls(
            Grid.from_json(found["read_chunks"], shape),
            Grid.from_json(found["write_chunks"], shape),
            Grid.from_json(found["task_chunks"], shape),
            permutation(found["order"], "order", ndim),
            Access(text(found["read_access"], "read_access", list(Access))),
            Access(text(found["write_access"], "write_access", list(Access))),
            integer(found["coalesced"], "coalesced", most=ndim),
            None if how is None else Execution.from_json(how, ndim),
        )


@dataclass(frozen=True)
class Plan:
    """One pass, or several through intermediate arrays."""

    strategy: str
    """Name of the strategy that proposed it."""
    shape: tuple[int, ...]
    """The array's shape, in target axes."""
    passes: tuple[Pass, ...]
    """The passes, in order of execution."""
    scratch: tuple[Layout, ...] = ()
    """Layouts of the intermediate arrays, one fewer than passes."""
    interleaved: bool = False
    """Whether passes that share T run task by task, so that scratch holds one task only."""
    depth: int = 1
    """Requests that the device is to have at once; each pass follows its own `Execution`."""
    coders: int = 1
    """Units that may be decoded at once, and boxes that may be encoded at once: one per core."""
    memory_bytes: int = 0
    """Memory that the engine may allocate: what the plan needs, and room for writes to lag behind reads."""
    divided: bool = False
    """Whether the source's chunks are read in parts that their codec decodes one by one."""
    scratch_in_target: bool = False
    """Whether every second intermediate array, back from the last but one, lies in the target's space (DRA, Fig. 7)."""

    def __repr__(self) -> str:
        passes = "1 pass" if len(self.passes) == 1 else f"{len(self.passes)} passes"
        return f"<reblock Plan: {self.strategy}, {passes}, {format_size(self.memory_bytes)} of memory>"

    def sides(self, source: Layout, target: Layout) -> list[tuple[Pass, Layout, Layout]]:
        """Each pass with the layout it reads and the layout it writes."""
        chain = [source, *self.scratch, target]
        return list(zip(self.passes, chain, chain[1:], strict=False))

    def in_target(self, number: int) -> bool:
        """Whether an intermediate array lies in the target's space, which is empty until the last pass."""
        return self.scratch_in_target and (len(self.scratch) - number) % 2 == 0

    def along(self, source: End, scratch: End, target: End) -> list[End]:
        """One value for each array that the plan reads or writes, by where it lies."""
        between = [target if self.in_target(number) else scratch for number in range(len(self.scratch))]
        return [source, *between, target]

    def to_json(self) -> dict[str, Any]:
        """A document that stays small for any number of chunks; `from_json` gives the plan back."""
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
            "divided": self.divided,
            "scratch_in_target": self.scratch_in_target,
        }

    @classmethod
    def from_json(cls, value: Any) -> Plan:
        """Inverse of `to_json`; UsageError for anything else."""
        found = members(value, "a plan", [field.name for field in fields(cls)])
        shape = integers(found["shape"], "shape", most=MAX_LENGTH)
        return cls(
            text(found["strategy"], "strategy"),
            shape,
            tuple(Pass.from_json(one, shape) for one in items(found["passes"], "passes")),
            tuple(_scratch_from_json(one, shape) for one in items(found["scratch"], "scratch")),
            boolean(found["interleaved"], "interleaved"),
            integer(found["depth"], "depth", least=1),
            integer(found["coders"], "coders", least=1),
            integer(found["memory_bytes"], "memory_bytes"),
            boolean(found["divided"], "divided"),
            boolean(found["scratch_in_target"], "scratch_in_target"),
        )


def _scratch_from_json(value: Any, shape: Sequence[int]) -> Layout:
    """The layout of an intermediate array."""
    found = members(value, "scratch", ("chunks", "order", "dtype"))
    dtype = read_dtype(found["dtype"], "scratch.dtype")
    order = permutation(found["order"], "scratch.order", len(shape))
    return Layout.raw(dtype, Grid.from_json(found["chunks"], shape), order)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of one side of a pass."""

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
    """The cost of a plan; the same keys are predicted and measured."""

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
    """Bytes read from the source divided by the bytes of the array."""
    scratch_bytes: int
    """Largest size of the intermediate arrays at any time."""
    peak_bytes: int
    """The most bytes that the engine allocates at once."""
    held_bytes: int
    """The most bytes of elements read and not yet written (the papers' count)."""
    seconds: float
    """Time on the device."""
    write_amplification: float = 1.0
    """Bytes written to the target, including padding, divided by the bytes of the array."""

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
