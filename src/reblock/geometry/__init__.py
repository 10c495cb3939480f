"""Boxes, grids and how they overlap: integers only."""

from reblock.geometry.axis import Axis
from reblock.geometry.box import Box
from reblock.geometry.grid import Grid
from reblock.geometry.overlap import Overlap, overlap

__all__ = ["Axis", "Box", "Grid", "Overlap", "overlap"]
