"""Gathering: in which order stored objects are read for many boxes at once, and which boxes are held at each moment."""

from __future__ import annotations

from dataclasses import dataclass

from reblock.geometry import Box


@dataclass(frozen=True)
class GatherStep:
    """Objects, or parts of raw objects, that are read together."""

    reads: tuple[Box, ...]
    """What is read. Units that several of these boxes touch are read once; no other step of the sweep reads them."""
    opens: tuple[int, ...]
    """Numbers of the pieces that this step touches first, and that take memory from now on."""
    closes: tuple[int, ...]
    """Numbers of the pieces that are complete afterwards."""


@dataclass(frozen=True)
class GatherPlan:
    """A plan that reads many boxes, called pieces, together."""

    steps: tuple[GatherStep, ...]
    """The steps, in order."""
    sweeps: int
    """How often an object is read at most: more than once only where the pieces do not fit into memory together."""
    held_bytes: int
    """The most bytes of pieces that are held at the same time."""
    objects: int
    """Visits to objects; to parts of them where objects are read by byte runs."""
    bytes: int
    """Decoded bytes of all that is read."""
