"""The price of a plan without running it: exact counts of opens, runs, bytes and memory, and seconds on a device."""

from reblock.cost.device import PRESETS
from reblock.cost.estimate import estimate, estimate_pass
from reblock.cost.memory import buffer_bytes, held_elements
from reblock.cost.seeks import traffic

__all__ = ["PRESETS", "buffer_bytes", "estimate", "estimate_pass", "held_elements", "traffic"]
