"""Learning: what a pass that was measured says about devices and cores, and a device made of what was learned.

The cost model is read backwards. The seconds of the cores are measured as they are. The seconds of a device are what a
pass took beyond them ::

    measured = moved + SERIAL · worked        where moving bytes took longer than working on them
    ratio    = moved / what the model says    every rate that explains a good part of it is wrong by this factor

One run cannot tell reading from writing on the same device; runs of several kinds move them apart, since each one mends
what it used most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from reblock.cost.estimate import SERIAL
from reblock.model import Device, Layout, Traffic

#: The name of the cores among the subjects of measurements.
MACHINE = "machine"
#: Rate of all that cores do beside coding: the scattering of elements, and the kernel's work for reads and writes.
SCATTER = "scatter"
#: Work of a visit to an object, and of a new one, in processor seconds.
VISIT, MAKE = "visit", "make"
#: Requests that a device serves at once; `bench device` measures them, runs do not.
DEPTH = "depth"
#: Sizes of accesses that have speeds of their own: less than this many bytes.
_SIZES = ((64 << 10, "small"), (1 << 20, "medium"))
_LARGE = "large"

#: A pass that is shorter, or moves less, says nothing.
LEAST_SECONDS, LEAST_BYTES = 0.02, 4 << 20
#: Processor seconds from which on a rate can be told from them.
_LEAST_WORK = 0.002
#: The part of the time on a device that a quantity must explain to be mended.
_LEAST_SHARE = 0.25
#: No speed is changed by more at once.
_MOST_RATIO = 20.0

#: What is known of a quantity of a subject.
Known = Callable[[str, str], float | None]


@dataclass(frozen=True)
class Observation:
    """One pass as it was measured."""

    source: Layout
    """What it read."""
    target: Layout
    """What it wrote."""
    reads: Traffic
    """What it did to the source."""
    writes: Traffic
    """What it did to the target."""
    seconds: float
    """Elapsed time, until all was on the medium."""
    processor_seconds: float
    """Time of all cores."""
    decode_seconds: float
    """Time of all cores in decoders."""
    encode_seconds: float
    """Time of all cores in encoders."""
    read_seconds: float = 0.0
    """Time of all threads in reads, by the clock."""
    write_seconds: float = 0.0
    """Time of all threads in writes, by the clock."""
    stall: float = 1.0
    """How many times longer it was to take because memory did not hold two steps."""


def coding(kind: str, codec: str) -> str:
    """The quantity that is the speed of a codec; `kind` is decode, encode or part."""
    return f"{kind} {codec}"


def access(kind: str, layout: Layout) -> str:
    """The quantity that is the speed of reading or writing units of this size."""
    return f"{kind} {next((name for most, name in _SIZES if layout.unit_bytes < most), _LARGE)}"


def learn_work(seen: Observation, device: Device, cores: int) -> Iterator[tuple[str, float]]:
    """What a pass says about the cores: bytes per processor second, and processor seconds per object.

    Time that is neither decoding nor encoding is divided between bytes and objects as in the model; the rate of the
    larger part is corrected.
    """
    moved = max(seen.reads.bytes, seen.writes.bytes)
    if moved < LEAST_BYTES:
        return
    if seen.decode_seconds > _LEAST_WORK:
        yield coding("decode", seen.source.codec), seen.reads.bytes / seen.decode_seconds
    if seen.encode_seconds > _LEAST_WORK:
        yield coding("encode", seen.target.codec), seen.writes.bytes / seen.encode_seconds
    rest = seen.processor_seconds - seen.decode_seconds - seen.encode_seconds
    visits, makes = seen.reads.opens + seen.writes.opens, seen.target.objects.count
    files = (visits * device.visit_seconds + makes * device.make_seconds) * cores
    bytes_work = moved * cores / device.memory_bytes_per_second
    if rest < _LEAST_WORK:
        return
    if files < _LEAST_SHARE * (files + bytes_work):
        yield SCATTER, moved / max(rest - files, rest / 2)
    elif files > bytes_work:
        ratio = min(max(rest - bytes_work, rest / 2) / files, _MOST_RATIO)
        if visits - makes > makes:
            yield VISIT, device.visit_seconds * cores * ratio
        else:
            yield MAKE, device.make_seconds * cores * ratio


def learn_devices(seen: Observation, devices: tuple[Device, Device], cores: int) -> Iterator[tuple[int, str, float]]:
    """What a pass says about its devices: 0 for the source's or 1 for the target's, a quantity, and its value."""
    seconds = seen.seconds / seen.stall
    worked = seen.processor_seconds / max(cores, 1)
    moved = seconds - SERIAL * worked
    if seconds < LEAST_SECONDS or max(seen.reads.bytes, seen.writes.bytes) < LEAST_BYTES or moved <= worked:
        return
    parts = [*_reading(seen, devices[0]), *_writing(seen, devices[1])]
    if devices[0] != devices[1] or devices[0].duplex:
        # The device that threads waited for is the one that took so long.
        parts = [part for part in parts if part.side == (seen.write_seconds > seen.read_seconds)]
    whole = sum(part.seconds for part in parts)
    if not whole:
        return
    ratio = min(max(moved / whole, 1 / _MOST_RATIO), _MOST_RATIO)
    for part in parts:
        if part.seconds >= _LEAST_SHARE * whole:
            yield part.side, part.quantity, part.value / ratio if part.is_rate else part.value * ratio


@dataclass(frozen=True)
class _Part:
    """A term of the time on a device."""

    side: int
    quantity: str
    value: float
    seconds: float
    is_rate: bool = True


def _reading(seen: Observation, device: Device) -> list[_Part]:
    size = seen.reads.bytes * seen.source.stored_part
    rate, jumps = device.read_bytes_per_second, seen.reads.seeks - seen.reads.opens
    opening = seen.reads.opens * (device.open_seconds + device.far_seek_seconds) / device.depth
    return [
        _Part(0, access("read", seen.source), rate, size / rate),
        _Part(0, "open", device.open_seconds, opening, is_rate=False),
        _Part(0, "seek", device.seek_seconds, jumps * device.seek_seconds / device.depth, is_rate=False),
    ]


def _writing(seen: Observation, device: Device) -> list[_Part]:
    size, rate = seen.writes.bytes * seen.target.stored_part, device.write_bytes_per_second
    creating = seen.target.objects.count * device.create_seconds / device.depth
    visiting = seen.writes.opens * (device.open_seconds + device.far_seek_seconds)
    visiting += (seen.writes.seeks - seen.writes.opens) * device.seek_seconds
    return [
        _Part(1, access("write", seen.target), rate, size / rate),
        _Part(1, "create", device.create_seconds, creating, is_rate=False),
        # What it is that takes long when parts of objects are written is not known.
        _Part(1, "", 1.0, visiting / device.depth, is_rate=False),
    ]


def learned_device(
    base: Device, name: str, subject: str, known: Known, layouts: tuple[Layout, Layout], cores: int
) -> Device:
    """A device with the measured rates, and those of the base where there are none, for such a source and target."""
    source, target = layouts

    def or_base(value: float | None, field: str) -> float:
        return value or float(getattr(base, field))

    def of_size(kind: str, layout: Layout) -> float | None:
        names = [access(kind, layout), *(f"{kind} {size}" for size in (_LARGE, "medium", "small"))]
        return next((value for quantity in names if (value := known(subject, quantity))), None)

    def rates(kind: str, layout: Layout) -> dict[str, float]:
        before = base.decode_bytes_per_second if kind == "decode" else base.encode_bytes_per_second
        speed = known(MACHINE, coding(kind, layout.codec)) if layout.codec else None
        return {**before, layout.codec: speed * cores} if speed else before

    return replace(
        base,
        name=name,
        read_bytes_per_second=or_base(of_size("read", source), "read_bytes_per_second"),
        write_bytes_per_second=or_base(of_size("write", target), "write_bytes_per_second"),
        open_seconds=or_base(known(subject, "open"), "open_seconds"),
        seek_seconds=or_base(known(subject, "seek"), "seek_seconds"),
        create_seconds=or_base(known(subject, "create"), "create_seconds"),
        depth=max(int(or_base(known(subject, DEPTH), "depth")), 1),
        memory_bytes_per_second=or_base((known(MACHINE, SCATTER) or 0) * cores, "memory_bytes_per_second"),
        visit_seconds=or_base((known(MACHINE, VISIT) or 0) / cores, "visit_seconds"),
        make_seconds=or_base((known(MACHINE, MAKE) or 0) / cores, "make_seconds"),
        decode_bytes_per_second=rates("decode", source),
        encode_bytes_per_second=rates("encode", target),
    )
