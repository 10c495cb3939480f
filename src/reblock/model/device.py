"""Device: what storage costs, in seconds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from reblock.errors import UsageError
from reblock.geometry.values import boolean


@dataclass(frozen=True)
class Device:
    """Latencies and rates that turn counts into seconds."""

    name: str
    """Name in reports."""
    read_bytes_per_second: float
    """Sequential read rate."""
    write_bytes_per_second: float
    """Sequential write rate, until data is on the medium."""
    open_seconds: float
    """One visit to an object: open and close, or the request's round trip."""
    seek_seconds: float
    """A jump to another byte run of the same object."""
    create_seconds: float
    """Creating an object."""
    depth: int
    """Requests in flight that the device serves at once; latencies are divided by it."""
    far_seek_seconds: float = 0.0
    """Extra for a jump between objects (a disk arm's travel)."""
    travel_seconds_per_byte: float = 0.0
    """Extra for the distance between the first and the last byte of an access: an arm's or a tape's travel."""
    switch_seconds: float = 0.0
    """Mounting another medium, such as a tape or a platter."""
    drives: int = 1
    """Media that are mounted at once."""
    medium_bytes: int = 0
    """Bytes of one medium; 0 = everything is on one."""
    duplex: bool = False
    """Whether reads and writes do not delay each other, as in an object store."""
    memory_bytes_per_second: float = 3e9
    """Rate of scattering elements from units into write buffers, all cores."""
    fresh_bytes_per_second: float = 2e9
    """Rate at which memory is touched for the first time, when the system provides and clears its pages."""
    visit_seconds: float = 15e-6
    """Processor time to open and close an object, divided by the cores."""
    make_seconds: float = 60e-6
    """Processor time to create, sync and record an object, divided by the cores."""
    decode_bytes_per_second: dict[str, float] = field(default_factory=dict, hash=False)
    """Decoded bytes per second by codec name, all cores; `default` for the rest."""
    encode_bytes_per_second: dict[str, float] = field(default_factory=dict, hash=False)
    """Decoded bytes per second by codec name, all cores; `default` for the rest."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Device:
        """A device from a calibration file's content."""
        known = {f.name for f in fields(cls)}
        if not isinstance(value, dict) or not set(value) <= known:
            raise UsageError(f"a device file is a JSON object with {', '.join(sorted(known))}")
        try:
            device = cls(**value)
        except TypeError as error:
            raise UsageError(f"device file: {error}") from None
        device._check()
        return device

    def _check(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "name":
                continue
            if f.name == "duplex":
                boolean(value, "device file: duplex")
                continue
            by_codec = f.name in ("decode_bytes_per_second", "encode_bytes_per_second")
            if by_codec and not (isinstance(value, dict) and all(value.values())):
                raise UsageError(f"device file: {f.name} must be an object of rates above 0 by codec, not {value!r}")
            for number in value.values() if by_codec else (value,):
                if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
                    raise UsageError(f"device file: {f.name} must be a number of at least 0, not {number!r}")
        rates = [value for name, value in asdict(self).items() if name.endswith("per_second") and "code" not in name]
        if min(*rates, self.depth) <= 0:
            raise UsageError("device file: rates and depth must be above 0")
