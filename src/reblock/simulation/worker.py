"""The worker: how long it takes to carry out a share of tasks.

The engine has threads that read, threads that write and cores that decode, scatter and encode. Each thread waits for
one request at a time, so a request's latency is divided by the threads of the plan's `Execution`, as far as the device
serves so many at once ::

    read    ██████████████████                   rounds of requests, and bytes
    work      ░░██████████                       all cores
    write        ├──┤███████████████             the first box is complete when as much is held as ever will be
                 late

On an object store, reads and writes do not delay each other. Then writes lag behind reads by the bytes that are held,
counted unit by unit, or wait for them if memory does not hold two steps. The formula of one whole pass is
`cost.estimate.pass_seconds`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from reblock.cost.codecs import codec_rate
from reblock.cost.estimate import SERIAL, STALL, stalled_part
from reblock.cost.memory import held_elements
from reblock.errors import Refused
from reblock.model import Device, Layout, Pass, Plan, Traffic
from reblock.simulation.tasks import TaskCounts


@dataclass(frozen=True)
class Worker:
    """A worker that carries out shares of one pass."""

    source: Layout
    """What it reads."""
    target: Layout
    """What it writes."""
    devices: tuple[Device, Device]
    """Devices of both."""
    readers: int
    """Requests that it has under way at once to read."""
    writers: int
    """Requests that it has under way at once to write."""
    late_bytes: int
    """The most bytes that are read before the boxes that they belong to can be written."""
    stalled: float
    """The part of the writes that the next reads wait for."""

    @classmethod
    def of(cls, sweep: Pass, source: Layout, target: Layout, plan: Plan, devices: tuple[Device, Device]) -> Worker:
        """The worker that follows a plan."""
        how = sweep.execution
        # A batch of raw units is one call, but as many requests.
        readers = plan.depth if how is None else min(how.readers * how.batch_size, how.units_in_flight)
        writers = plan.depth if how is None else how.writers
        return cls(
            source,
            target,
            devices,
            max(min(readers, devices[0].depth), 1),
            max(min(writers, devices[1].depth), 1),
            _late_elements(sweep, source) * target.itemsize,
            stalled_part(sweep, source, target, plan),
        )

    def seconds(self, load: TaskCounts) -> float:
        """Time to carry out some tasks."""
        first, last = self.devices
        reading = self._waiting(load.reads, first, self.readers)
        reading += load.reads.bytes * self.source.stored_part / first.read_bytes_per_second
        writing = self._waiting(load.writes, last, self.writers, load.made)
        writing += load.writes.bytes * self.target.stored_part / last.write_bytes_per_second
        working = self.working(load)
        if first == last and not first.duplex:
            moved, stall = reading + writing, 1.0 + STALL * self.stalled
        else:
            late = min(self.late_bytes / max(load.reads.bytes, 1), 1.0)
            moved, stall = max(reading, writing) + max(late, self.stalled) * min(reading, writing), 1.0
        return (max(moved, working) + SERIAL * min(moved, working)) * stall

    def _waiting(self, side: Traffic, device: Device, threads: int, made: int = 0) -> float:
        """Time of the requests of one side, in rounds of as many as there are threads."""
        if not side.seeks:
            return 0.0
        waits = side.opens * (device.open_seconds + device.far_seek_seconds)
        waits += (side.seeks - side.opens) * device.seek_seconds + made * device.create_seconds
        return waits / side.seeks * -(-side.seeks // threads)

    def working(self, load: TaskCounts) -> float:
        """Time of the cores."""
        first, last = self.devices
        moved = max(load.reads.bytes, load.writes.bytes)
        decoding = codec_rate(first.decode_bytes_per_second, self.source.codec, encoding=False)
        encoding = codec_rate(last.encode_bytes_per_second, self.target.codec, encoding=True)
        work = moved / last.memory_bytes_per_second + load.reads.bytes / decoding + load.writes.bytes / encoding
        work += load.reads.opens * first.visit_seconds + load.writes.opens * last.visit_seconds
        return work + load.made * last.make_seconds


def _late_elements(sweep: Pass, source: Layout) -> int:
    """The most elements that are read and not yet written: those of earlier read boxes, and of units in the box."""
    held = held_elements(sweep)
    try:
        # Units arrive in the order of the axes, and each read box by itself.
        inside = replace(sweep, read=source.units.clipped(), tasks=sweep.reads, order=tuple(range(source.ndim)))
        within = held_elements(inside)
    except Refused:
        return held
    return min(max(held - prod(sweep.reads.largest), 0) + within, held)
