"""The cost of a plan: counts, bytes, memory, seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np

from reblock.cost.codecs import codec_rate
from reblock.cost.memory import (
    allocated_bytes,
    behind_bytes,
    buffer_bytes,
    held_elements,
    planned_flight,
    slab_axes,
)
from reblock.cost.seeks import traffic
from reblock.geometry.overlap import LISTED_CUTS, QUICK_CUTS
from reblock.model import Access, Cost, Device, Layout, Pass, Plan, Problem, Traffic

#: The share of a pass's time that is lost if reading and writing cannot overlap.
STALL = 0.25

#: Moving bytes and working on them overlap, except for this share of the shorter one.
SERIAL = 0.2

#: Memory whose first touch takes negligible time.
LITTLE_BYTES = 64 << 20


@dataclass(frozen=True)
class Sweep:
    """A pass, priced."""

    source: Traffic
    """Traffic on the layout that it reads."""
    target: Traffic
    """Traffic on the layout that it writes."""
    held_bytes: int
    """The most bytes of elements held."""
    peak_bytes: int
    """The most bytes that the engine allocates."""
    seconds: float
    """Time on the devices, and to touch memory for the first time."""
    steady_seconds: float
    """The same if memory held two steps."""


def estimate_pass(sweep: Pass, source: Layout, target: Layout, plan: Plan, devices: tuple[Device, Device]) -> Sweep:
    """Price one pass of a plan between two layouts on two devices."""
    reads = traffic(sweep.reads, source, sweep.read_access, coalesced=sweep.coalesced)
    writes = traffic(sweep.writes, target, sweep.write_access, writing=True)
    room = plan.memory_bytes - planned_flight(sweep, source, target, plan, plan.memory_bytes)
    slabs = bool(slab_axes(sweep, target, room))
    seconds = float(pass_seconds(reads, writes, source, target, devices, slabs=slabs))
    peak = allocated_bytes(sweep, source, target, plan, plan.memory_bytes)
    # Parts of objects are written through the page cache, which needs memory for all of them.
    cached = writes.bytes if sweep.write_access is Access.RUNS else 0
    touching = touching_seconds(peak, cached, devices[1])
    return Sweep(
        reads,
        writes,
        held_elements(sweep) * target.itemsize,
        peak,
        float(seconds * _stall(sweep, source, target, plan) + touching),
        float(seconds + touching),
    )


def _stall(sweep: Pass, source: Layout, target: Layout, plan: Plan) -> float:
    """The factor for writing a step before the next is read, as far as memory does not hold two steps."""
    return 1.0 + STALL * stalled_part(sweep, source, target, plan)


def stalled_part(sweep: Pass, source: Layout, target: Layout, plan: Plan) -> float:
    """The part of the writes that the next reads wait for, because memory cannot hold two steps."""
    behind = behind_bytes(sweep, target)
    room = plan.memory_bytes - planned_flight(sweep, source, target, plan, plan.memory_bytes)
    if sweep.reads.count < 2 or not behind:
        return 0.0
    return min(max(buffer_bytes(sweep, target, room) + behind - room, 0) / behind, 1.0)


def steady_seconds(plan: Plan, problem: Problem) -> float:
    """Time of a plan if memory held two steps of every pass."""
    return sum(one.steady_seconds for one in estimate_passes(plan, problem))


def estimate_passes(plan: Plan, problem: Problem) -> list[Sweep]:
    """Price every pass of a plan."""
    sides = plan.sides(problem.source, problem.target)
    devices = plan.along(*problem.devices)
    return [
        estimate_pass(sweep, source, target, plan, (devices[k], devices[k + 1]))
        for k, (sweep, source, target) in enumerate(sides)
    ]


def estimate(plan: Plan, problem: Problem) -> Cost:
    """Price a plan."""
    return total(estimate_passes(plan, problem), plan, problem)


def least_cost(plan: Plan, problem: Problem) -> Cost:
    """The cost of a plan without its memory, which takes long to count: a lower bound on time, exact in the rest."""
    devices = plan.along(*problem.devices)
    seeks = read = written = 0
    seconds = 0.0
    for k, (sweep, source, target) in enumerate(plan.sides(problem.source, problem.target)):
        reads = traffic(sweep.reads, source, sweep.read_access, coalesced=sweep.coalesced)
        writes = traffic(sweep.writes, target, sweep.write_access, writing=True)
        seeks, read, written = seeks + reads.seeks + writes.seeks, read + reads.bytes, written + writes.bytes
        seconds += float(pass_seconds(reads, writes, source, target, (devices[k], devices[k + 1])))
    return bare_cost(seeks, read, written, seconds)


def bare_cost(seeks: int, bytes_read: int, bytes_written: int, seconds: float, peak_bytes: int = 0) -> Cost:
    """A cost of which only the fields that rankings use are known."""
    return Cost(0, seeks, 0, bytes_read, bytes_written, 1.0, 0, peak_bytes, 0, seconds)


def total(sweeps: list[Sweep], plan: Plan, problem: Problem) -> Cost:
    """Sum up priced passes."""
    sides = [side for sweep in sweeps for side in (sweep.source, sweep.target)]
    first = sweeps[0].source.bytes if sweeps else 0
    last = sweeps[-1].target.bytes if sweeps else 0
    logical, stored = problem.source.nbytes, problem.target.nbytes
    return Cost(
        opens=sum(side.opens for side in sides),
        seeks=sum(side.seeks for side in sides),
        runs=sum(side.runs for side in sides),
        bytes_read=sum(sweep.source.bytes for sweep in sweeps),
        bytes_written=sum(sweep.target.bytes for sweep in sweeps),
        read_amplification=first / logical if logical else 1.0,
        scratch_bytes=scratch_bytes(plan),
        peak_bytes=max((sweep.peak_bytes for sweep in sweeps), default=0),
        held_bytes=max((sweep.held_bytes for sweep in sweeps), default=0),
        seconds=sum(sweep.seconds for sweep in sweeps),
        write_amplification=last / stored if stored else 1.0,
    )


def scratch_bytes(plan: Plan) -> int:
    """Intermediate arrays that exist at the same time: the one that is read and the one that is written."""
    volume = prod(plan.passes[0].tasks.largest) if plan.interleaved else prod(plan.shape)
    sizes = [0 if plan.in_target(k) else volume * layout.itemsize for k, layout in enumerate(plan.scratch)]
    return max((a + b for a, b in zip([0, *sizes], [*sizes, 0], strict=True)), default=0)


class Counts(Protocol):
    """The inputs of the time model: numbers, or arrays of them."""

    @property
    def opens(self) -> Any: ...
    @property
    def seeks(self) -> Any: ...
    @property
    def bytes(self) -> Any: ...


def pass_seconds(
    reads: Counts,
    writes: Counts,
    source: Layout,
    target: Layout,
    devices: tuple[Device, Device],
    *,
    slabs: bool = False,
) -> Any:
    """Time of a pass: reads and writes alternate on one device, and overlap on two or on one that is duplex.

    The cores work in parallel. All slabs are fresh memory. ::

        moved   ████████████████████            bytes, opens and jumps on the devices
        worked  ░░██████████                    scattering, decoding, encoding and system calls on all cores
                ├┤ SERIAL of the shorter one: the first reads, the last writes
    """
    from_device, to_device = devices
    reading = moving_seconds(reads, from_device, from_device.read_bytes_per_second, source.stored_part)
    writing = moving_seconds(writes, to_device, to_device.write_bytes_per_second, target.stored_part)
    writing = writing + target.objects.count * to_device.create_seconds / to_device.depth
    alternate = from_device == to_device and not from_device.duplex
    moved = reading + writing if alternate else _larger(reading, writing)
    working = _larger(reads.bytes, writes.bytes) / to_device.memory_bytes_per_second
    working = working + reads.bytes / codec_rate(from_device.decode_bytes_per_second, source.codec, encoding=False)
    working = working + writes.bytes / codec_rate(to_device.encode_bytes_per_second, target.codec, encoding=True)
    working = working + reads.opens * from_device.visit_seconds + writes.opens * to_device.visit_seconds
    working = working + target.objects.count * to_device.make_seconds
    if slabs:
        working = working + writes.bytes / to_device.fresh_bytes_per_second
    longer = _larger(moved, working)
    return longer + SERIAL * (moved + working - longer)


def _larger(one: Any, two: Any) -> Any:
    """The larger of two numbers of any size, or of two arrays elementwise."""
    arrays = isinstance(one, np.ndarray) or isinstance(two, np.ndarray)
    return np.maximum(one, two) if arrays else max(one, two)


def ideal_seconds(problem: Problem) -> float:
    """A lower bound on the time of any plan: one pass that touches every object once, in little memory."""
    return _least_seconds(problem, _least_traffic(problem.source))


def one_pass_seconds(problem: Problem) -> float:
    """A lower bound on the time of any plan of one pass within the memory budget."""
    reads = _least_traffic(problem.source)
    return _least_seconds(problem, replace(reads, bytes=max(reads.bytes, _bytes_again(problem))))


def _least_seconds(problem: Problem, reads: Traffic) -> float:
    first, _, last = problem.devices
    writes = _least_traffic(problem.target, writing=True)
    return float(pass_seconds(reads, writes, problem.source, problem.target, (first, last)))


def _bytes_again(problem: Problem) -> int:
    """A lower bound on the bytes that one pass reads, including units that memory forces it to read again.

    Reading a unit requires buffers for the target objects that it meets. If those that are written whole take k times
    the memory that is left beside the unit and its codecs, a unit that is read whole is read k times.
    """
    source, target = problem.source, problem.target
    if problem.held or source.partial_reads or target.partial_writes:
        return 0
    unit = source.unit_memory_bytes if source.encoded else source.unit_bytes if source.indexed else 0
    room = problem.memory_bytes - unit - target.encoding_bytes
    if room <= 0:
        return 0
    # Products of many lengths; floats are exact enough here.
    read, met = np.array([float(source.itemsize)]), np.array([float(target.itemsize)])
    for units, objects in zip(source.units.axes, target.objects.axes, strict=True):
        if units.count > LISTED_CUTS or read.size > QUICK_CUTS:
            return 0
        cuts = units.cuts()
        ends = np.append(cuts[1:], units.length)
        lengths, places = np.unique(objects.ceils(ends) - objects.floors(cuts), return_inverse=True)
        read = np.multiply.outer(read, np.bincount(places, ends - cuts)).ravel()
        met = np.multiply.outer(met, lengths).ravel()
    return int((read * np.ceil(met / room)).sum())


@lru_cache(maxsize=128)
def _least_traffic(layout: Layout, *, writing: bool = False) -> Traffic:
    """The counts of a pass that touches every object of a layout once."""
    ways = [traffic(layout.objects.clipped(), layout, access, writing=writing) for access in Access]
    return Traffic(*(min(getattr(way, field.name) for way in ways) for field in fields(Traffic)))


def touching_seconds(held: Any, cached: Any, device: Device) -> Any:
    """Time of the first touch of memory: a pass's peak, and the bytes that it moves through the page cache."""
    return (_larger(held - LITTLE_BYTES, 0) + cached) / device.fresh_bytes_per_second


def moving_seconds(side: Counts, device: Device, rate: float, part: float = 1.0) -> Any:
    """Time of one side's opens, jumps and bytes; `part` is the share of the bytes that is stored."""
    jumps = side.seeks - side.opens
    waits = side.opens * (device.open_seconds + device.far_seek_seconds) + jumps * device.seek_seconds
    return side.bytes * part / rate + waits / device.depth
