"""Reading replicas: a region from the cheapest copy, and why it is the cheapest."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from reblock.api.replicas.array import ReadPrice, ReplicaArray, open_replicas
from reblock.api.running import repartition
from reblock.errors import UsageError, option
from reblock.geometry import Box
from reblock.geometry.notation import Ranges, parse_region
from reblock.storage.location import Where

#: The most elements that are shown.
_SHOWN = 1000


@dataclass(frozen=True)
class RegionExplained:
    """What a read costs on each copy."""

    folder: str
    """The replicas."""
    region: Box
    """What is read."""
    prices: tuple[ReadPrice, ...]
    """Cost on each copy, the cheapest first; the read goes to the first."""
    damaged: tuple[str, ...]
    """Copies that cannot be opened."""
    device: str
    """Name of the device by which the cheapest copy is priced."""

    def to_json(self) -> dict[str, Any]:
        """The document of `replicas explain --json`."""
        return {
            "replicas": self.folder,
            "region": [list(pair) for pair in zip(self.region.start, self.region.stop, strict=True)],
            "copy": self.prices[0].copy,
            "prices": [one.to_json() for one in self.prices],
            "damaged": list(self.damaged),
            "device": self.device,
        }


@dataclass(frozen=True)
class RegionRead:
    """A region that was read."""

    explained: RegionExplained
    """Where it was read, and why."""
    output: str | None
    """The file that holds it; None if it is shown."""
    elements: npt.NDArray[Any] = field(repr=False)
    """The elements."""

    def to_json(self) -> dict[str, Any]:
        """The document of `replicas read --json`."""
        made = {**self.explained.to_json(), "shape": list(self.elements.shape), "dtype": self.elements.dtype.str}
        return {**made, "output": self.output} if self.output else {**made, "elements": self.elements.tolist()}


def explain_region(folder: Where, region: Ranges | None) -> RegionExplained:
    """What reading a region costs on each copy; nothing is read."""
    array = open_replicas(os.fspath(folder))
    box = parse_region(region, array.shape, array.axes)
    return _explained(folder, box, array)


def _explained(folder: Where, box: Box, array: ReplicaArray) -> RegionExplained:
    prices = tuple(array.prices(box))
    return RegionExplained(os.fspath(folder), box, prices, array.damaged, array.devices[prices[0].copy].name)


def read_region(
    folder: Where, region: Ranges | None, *, output: Where | None = None, memory: str | int | None = None
) -> RegionRead:
    """Read a region from the cheapest copy, into a new .npy file if there is an output."""
    array = open_replicas(os.fspath(folder), memory)
    box = parse_region(region, array.shape, array.axes)
    if output is None and box.size > _SHOWN:
        raise UsageError(
            f"the region has {box.size:,} elements, and at most {_SHOWN:,} are shown: give {option('output')}"
        )
    explained = _explained(folder, box, array)
    elements = array.load_box(box)
    if output is not None:
        repartition(elements, output, to_format="npy")
    return RegionRead(explained, None if output is None else os.fspath(output), elements)
