"""Problem: what is to be done, under which limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reblock.errors import UsageError
from reblock.model.device import Device
from reblock.model.layout import Layout

#: The largest array that plans are made for: products of its counts are still floating point numbers.
MAX_BYTES = 2**256


@dataclass(frozen=True)
class Problem:
    """Rewrite the source layout as the target layout; both are in the target's axes."""

    source: Layout
    """The source as the target sees it: cropped and transposed."""
    target: Layout
    """What is to be written."""
    memory_bytes: int
    """The budget."""
    device: Device
    """Where the source lies."""
    target_device: Device | None = None
    """Where the target lies; None = the same."""
    scratch_device: Device | None = None
    """Where intermediate arrays lie; None = the target's."""
    scratch_bytes: int | None = None
    """Most bytes that intermediate arrays may take; None = no limit."""
    scratch_objects: int | None = None
    """Most objects that intermediate arrays may have; None = no limit."""
    cores: int = 2
    """Cores that decode and encode."""
    held: bool = False
    """Judge memory by the papers' count (elements held) instead of what the engine allocates."""

    def __post_init__(self) -> None:
        if self.source.shape != self.target.shape:
            raise UsageError(f"source {self.source.shape} and target {self.target.shape} differ in shape")
        if self.target.nbytes > MAX_BYTES:
            raise UsageError(f"an array of shape {self.target.shape} has more than 2**256 bytes, the most for a plan")
        if self.memory_bytes < 1:
            raise UsageError(f"the memory budget must be at least 1 byte, not {self.memory_bytes}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.target.shape

    @property
    def devices(self) -> tuple[Device, Device, Device]:
        """Devices of source, scratch and target."""
        target = self.target_device or self.device
        return self.device, self.scratch_device or target, target

    @property
    def lower_bound_seeks(self) -> int:
        """n_I + n_O: every object of both sides touched once."""
        return self.source.objects.count + self.target.objects.count

    def to_json(self) -> dict[str, Any]:
        """What a plan was made for; two runs are the same job when these are equal."""
        return {
            "source": self.source.to_json(),
            "target": self.target.to_json(),
            "memory_bytes": self.memory_bytes,
            "device": self.device.name,
            "memory_model": "held" if self.held else "allocated",
        }
