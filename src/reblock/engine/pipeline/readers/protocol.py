"""The reading protocol: a pass is read in batches of units, and threads carry out the jobs made of them.

::

    Reading.batches(read box)  →  Batch: units in plan order, and the write boxes that each touches first
    Batch.job(start, stop)     →  ReadJob: reads, decodes and scatters some of these units, in one thread
    ReadJob(scratch)           →  Arrived: elements that are in their write boxes now

The dispatcher takes memory for write boxes before it makes a job of the units that touch them. Three classes implement
`Reading`; `choose` selects one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from reblock.engine.pipeline.boxes import Buffer
from reblock.engine.pipeline.scatter import Window
from reblock.engine.report import Times
from reblock.geometry import Box
from reblock.model import Scratch, Traffic


class Arrived(NamedTuple):
    """Elements that a job has scattered."""

    elements: int
    """Number of elements."""
    complete: Sequence[Buffer]
    """Write boxes that are now complete."""
    times: Times
    """Time of reading, decoding and scattering."""
    traffic: Traffic = Traffic()
    """Traffic at the source, unless an earlier part of the job has reported it."""
    missing: int = 0
    """Units that are not stored, and were filled."""


#: Reads some units of one read box: it is called by one thread, with the scratch memory of that thread.
ReadJob = Callable[[Scratch], Iterator[Arrived]]


class Batch(NamedTuple):
    """Units of one read box, in plan order."""

    units: int
    """Number of units."""
    step: int
    """The most units for one job."""
    positions: Sequence[int]
    """Positions in the window of write boxes that these units are the first to touch, in order of touching."""
    touches: Sequence[int]
    """For each of these write boxes, the number of the unit in this batch that touches it first."""
    job: Callable[[int, int], ReadJob | None]
    """Makes a job of the units from a first number up to a last; None if nothing of them is wanted."""


class Reading(Protocol):
    """How the read boxes of a pass are read."""

    def batches(self, box: Box, window: Window) -> Iterator[Batch]:
        """The units of a read box, in plan order."""

    def jobs(self, box: Box, window: Window) -> Iterator[ReadJob]:
        """Jobs that read a box whose write boxes have all their memory; for a load, which counts no traffic."""
