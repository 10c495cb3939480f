"""Execution: how the engine carries out one pass, in numbers that the planner has settled.

The engine derives none of them, so the same plan runs in the same way, and in the same memory, on any machine ::

    readers × batch_size      units_in_flight          coders                  writers
    ────────────────────      ───────────────          ──────                  ───────
    read units, or pieces  →  stored bytes, elements → decode     scatter →  encode → write
                              └──────────── flight_bytes ───────┘ └── buffer_bytes ──────┘
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from reblock.errors import UsageError
from reblock.geometry.values import integer, integers, members

#: Raw objects are read in pieces of at most this many bytes.
PIECE_BYTES = 4 << 20
#: The most threads of one kind, and the most units, that a plan may ask for.
MAX_THREADS, MAX_UNITS = 1 << 12, 1 << 20


@dataclass(frozen=True, slots=True)
class Execution:
    """How the engine carries out one pass."""

    readers: int
    """Threads that read."""
    batch_size: int
    """Raw units that a reader requests in one call."""
    units_in_flight: int
    """Units that are read at once; each has memory for its stored bytes and for its elements."""
    coders: int
    """Units that are decoded at once, and boxes that are encoded at once."""
    writers: int
    """Threads that write."""
    queued: int
    """Reads that are dispatched at once: their write boxes have memory, or wait for it."""
    piece_bytes: int
    """Raw objects are read in pieces of at most this many bytes."""
    slab_axes: tuple[int, ...]
    """Axes along which a write box takes its memory slab by slab; none = at once."""
    flight_bytes: int
    """Memory for units in flight and for the scratch space of codecs."""
    buffer_bytes: int
    """Memory for write boxes, without the records that are kept of them."""
    memory_bytes: int
    """All that the pass may allocate: units in flight, write boxes and their records."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "slab_axes": list(self.slab_axes)}

    @classmethod
    def from_json(cls, value: Any, ndim: int) -> Execution:
        """Inverse of `to_json` for a pass over `ndim` axes; UsageError for anything else."""
        found = members(value, "execution", [field.name for field in fields(cls)])
        axes = integers(found["slab_axes"], "execution.slab_axes", most=ndim - 1)
        if len(set(axes)) < len(axes):
            raise UsageError(f"execution.slab_axes names an axis twice: {list(axes)}")
        limits = {
            "readers": {"least": 1, "most": MAX_THREADS},
            "batch_size": {"least": 1, "most": MAX_UNITS},
            # An array without elements has no units.
            "units_in_flight": {"least": 0, "most": MAX_UNITS},
            "coders": {"least": 1, "most": MAX_THREADS},
            "writers": {"least": 1, "most": MAX_THREADS},
            "queued": {"least": 1, "most": MAX_UNITS},
            "piece_bytes": {"least": 1},
        }
        numbers = {
            name: integer(number, f"execution.{name}", **limits.get(name, {}))
            for name, number in found.items()
            if name != "slab_axes"
        }
        return cls(slab_axes=axes, **numbers)
