"""What was planned for one array, for the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reblock.dask.buffers import BufferPlan, Refusal
from reblock.dask.picture import sketch
from reblock.dask.sources import DiskArray
from reblock.geometry.axis import Ints


@dataclass
class ArrayOutcome:
    """What was done about one array."""

    disk: DiskArray
    """The array."""
    writing: bool
    """Whether it is stored to."""
    starts: Ints
    """First element of each load, or of each chunk that is stored, per axis."""
    stops: Ints
    """End of each of these boxes, per axis."""
    found: BufferPlan | Refusal
    """The buffers, or why there are none."""

    def to_json(self, *, picture: bool = True) -> dict[str, Any]:
        """For the report."""
        layout, found = self.disk.layout, self.found
        row = {
            "name": self.disk.name,
            "writing": self.writing,
            "boxes": len(self.starts),
            "nbytes": int((self.stops - self.starts).prod(axis=1).sum()) * layout.itemsize,
            "buffers": 0,
            "strategy": None,
            "largest_buffer_bytes": 0,
            "plain": found.plain.to_json(),
            "buffered": found.plain.to_json(),
            "reason": found.reason if isinstance(found, Refusal) else None,
        }
        if isinstance(found, BufferPlan):
            sizes = (found.stops - found.starts).prod(axis=1) * layout.itemsize
            row |= {
                "buffers": found.count,
                "strategy": found.strategy,
                "largest_buffer_bytes": int(sizes.max()),
                "buffered": found.buffered.to_json(),
            }
            if picture:
                bounds = (self.starts, self.stops), (found.starts, found.stops)
                row["picture"] = sketch(layout.shape, *bounds)
        return row
