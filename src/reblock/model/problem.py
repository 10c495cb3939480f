"""Problem: the layouts to convert between, and the limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reblock.errors import UsageError
from reblock.model.device import Device
from reblock.model.layout import Layout

#: The largest array that can be planned; products of its counts still fit floats.
MAX_BYTES = 2**256


@dataclass(frozen=True)
class Problem:
    """Rewrite the source layout as the target layout; both are in the target's axes."""

    source: Layout
    """The source as the target sees it: cropped and transposed."""
    target: Layout
    """The target."""
    memory_bytes: int
    """The memory budget."""
    device: Device
    """The device of the source."""
    target_device: Device | None = None
    """The device of the target; None = the source's."""
    scratch_device: Device | None = None
    """The device of intermediate arrays; None = the target's."""
    scratch_bytes: int | None = None
    """The most bytes that intermediate arrays may take; None = no limit."""
    scratch_objects: int | None = None
    """The most objects that intermediate arrays may have; None = no limit."""
    cores: int = 2
    """Cores that decode and encode."""
    held: bool = False
    """Whether memory is judged by the papers' count (elements held) instead of the engine's allocation."""

    def __post_init__(self) -> None:
        if self.source.shape != self.target.shape:
            raise UsageError(f"source {self.source.shape} and target {self.target.shape} differ in shape")
        if self.target.nbytes > MAX_BYTES:
            raise UsageError(f"an array of shape {self.target.shape} has more than 2**256 bytes, the limit of a plan")
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
