"""Upload: the parts, requests and seconds that bring a finished file into an object store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from reblock.model.device import Device

#: Requests of an upload that wait for each other: begin, complete, look for leftovers, look at the result.
_IN_TURN = 4


@dataclass(frozen=True)
class Upload:
    """An upload, predicted or measured."""

    bytes: int
    """Bytes of the file."""
    parts: int
    """Parts in which it is sent."""
    requests: int
    """Requests, those for its parts included; measured ones include repeated requests."""
    seconds: float
    """Elapsed time."""

    @classmethod
    def on(cls, device: Device, size: int, parts: int, requests: int, at_once: int) -> Upload:
        """The upload of a file to a device, `at_once` parts at a time."""
        waves = parts / max(min(device.depth, at_once, parts), 1) + min(requests - parts, _IN_TURN)
        # A latency is the depth divided by the requests per second, so a request alone takes all of it.
        return cls(size, parts, requests, waves * device.create_seconds + size / device.write_bytes_per_second)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
