"""Learning: what a pass says about its devices, when the truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reblock.cost import PRESETS
from reblock.cost.estimate import SERIAL, pass_seconds, traffic
from reblock.cost.learn import (
    MACHINE,
    MAKE,
    SCATTER,
    VISIT,
    Observation,
    access,
    coding,
    learn_devices,
    learn_work,
    learned_device,
)
from reblock.geometry import Grid
from reblock.model import Access, Device, Layout

NVME = PRESETS["nvme"]
CORES = 2
SHAPE = (512, 512, 512)


def cubes(length: int, codec: str = "") -> Layout:
    layout = Layout.raw("<f4", Grid.of(SHAPE, (length,) * 3))
    return replace(layout, codec=codec, partial_reads=not codec, partial_writes=not codec)


def observe(source: Layout, target: Layout, truth: tuple[Device, Device]) -> Observation:
    """A pass that takes as long as the model says of devices that nobody has told us about."""
    reads = traffic(source.objects, source, Access.UNITS)
    writes = traffic(target.objects, target, Access.UNITS, writing=True)
    seconds = float(pass_seconds(reads, writes, source, target, truth))
    last = truth[1]
    decode = reads.bytes / last.decode_bytes_per_second[source.codec] * CORES if source.codec else 0.0
    encode = writes.bytes / last.encode_bytes_per_second[target.codec] * CORES if target.codec else 0.0
    files = (reads.opens + writes.opens) * last.visit_seconds + target.objects.count * last.make_seconds
    rest = (max(reads.bytes, writes.bytes) / last.memory_bytes_per_second + files) * CORES
    return Observation(source, target, reads, writes, seconds, rest + decode + encode, decode, encode)


def learn(
    seen: list[Observation], subjects: tuple[str, str] = ("disk", "disk")
) -> tuple[Device, Device, dict[tuple[str, str], float]]:
    """Devices after some runs, each planned for what was known before it."""
    samples: dict[tuple[str, str], float] = {}

    def known(subject: str, quantity: str) -> float | None:
        return samples.get((subject, quantity))

    devices = NVME, NVME
    for one in seen:
        devices = devices_for(one, subjects, known)
        for quantity, value in learn_work(one, devices[1], CORES):
            samples[MACHINE, quantity] = value
        for side, quantity, value in learn_devices(one, devices, CORES):
            samples[subjects[side], quantity] = value
    return *devices_for(seen[-1], subjects, known), samples


def devices_for(
    seen: Observation, subjects: tuple[str, str], known: Callable[[str, str], float | None]
) -> tuple[Device, Device]:
    one, two = (
        learned_device(NVME, subject, subject, known, (seen.source, seen.target), CORES) for subject in subjects
    )
    return one, two


SLOW = replace(NVME, read_bytes_per_second=0.5e9, write_bytes_per_second=0.24e9, memory_bytes_per_second=6e9)
FAST = replace(NVME, read_bytes_per_second=10e9, write_bytes_per_second=4.8e9, memory_bytes_per_second=30e9)


@pytest.mark.parametrize("truth", [SLOW, FAST, NVME])
def test_one_run_tells_how_fast_a_device_is(truth: Device) -> None:
    source, target = cubes(64), cubes(128)
    seen = observe(source, target, (truth, truth))
    device, _, _ = learn([seen])
    other = cubes(128), cubes(256)
    reads = traffic(other[0].objects, other[0], Access.UNITS)
    writes = traffic(other[1].objects, other[1], Access.UNITS, writing=True)
    predicted, true = (float(pass_seconds(reads, writes, *other, (one, one))) for one in (device, truth))
    assert predicted == pytest.approx(true, rel=0.1)


def test_runs_of_several_kinds_move_reading_and_writing_apart() -> None:
    """Reads are slower than the preset says, writes faster; a run that mostly reads shows it."""
    truth = replace(NVME, read_bytes_per_second=1e9, write_bytes_per_second=2.4e9, memory_bytes_per_second=30e9)
    rereads = observe(cubes(64), cubes(128), (truth, truth))
    rereads = replace(rereads, reads=replace(rereads.reads, bytes=20 * rereads.reads.bytes))
    seconds = rereads.reads.bytes / 1e9 + rereads.writes.bytes / 2.4e9
    rereads = replace(rereads, seconds=seconds, processor_seconds=0.1)
    balanced = observe(cubes(64), cubes(128), (truth, truth))
    device, _, _ = learn([balanced, rereads, *[balanced] * 3])
    before, after = (one.write_bytes_per_second / one.read_bytes_per_second for one in (NVME, device))
    assert after > 1.8 * before


def test_of_two_devices_the_one_that_was_waited_for_is_learned() -> None:
    seen = observe(cubes(64), cubes(128), (replace(SLOW, name="a"), replace(FAST, name="b")))
    _, _, samples = learn([replace(seen, read_seconds=9.0, write_seconds=0.1)], ("a", "b"))
    assert {subject for subject, _ in samples} == {"a", MACHINE}
    assert samples["a", access("read", seen.source)] == pytest.approx(0.5e9, rel=0.1)


def test_codecs_and_cores_are_learned_as_they_are() -> None:
    truth = replace(
        NVME,
        decode_bytes_per_second={"zstd:3": 1.2e9},
        encode_bytes_per_second={"gzip:9": 0.05e9},
        memory_bytes_per_second=7e9,
    )
    seen = observe(cubes(64, "zstd:3"), cubes(128, "gzip:9"), (truth, truth))
    device, _, samples = learn([seen])
    assert samples[MACHINE, coding("decode", "zstd:3")] * CORES == pytest.approx(1.2e9)
    assert samples[MACHINE, coding("encode", "gzip:9")] * CORES == pytest.approx(0.05e9)
    assert samples[MACHINE, SCATTER] * CORES == pytest.approx(7e9, rel=0.2)
    assert {subject for subject, _ in samples} == {MACHINE}, "the cores took all the time: no device was measured"
    assert device.encode_bytes_per_second["gzip:9"] == pytest.approx(0.05e9)
    assert device.encode_bytes_per_second["blosc"] == NVME.encode_bytes_per_second["blosc"]


def test_small_files_are_learned_where_there_are_many() -> None:
    truth = replace(NVME, visit_seconds=40e-6, make_seconds=200e-6)
    many = observe(cubes(64), cubes(8), (truth, truth))
    device, _, samples = learn([many] * 4)
    assert (MACHINE, MAKE) in samples
    assert (MACHINE, VISIT) not in samples
    assert device.make_seconds == pytest.approx(200e-6, rel=0.35)
    many = observe(cubes(8), cubes(64), (truth, truth))
    device, _, samples = learn([many] * 4)
    assert device.visit_seconds == pytest.approx(40e-6, rel=0.35)


def test_what_was_hardly_used_is_not_changed() -> None:
    _, _, samples = learn([observe(cubes(64), cubes(128), (SLOW, SLOW))])
    assert not {quantity for _, quantity in samples} & {"open", "seek", "create", MAKE, VISIT}


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": 0.001, "processor_seconds": 0.0001},
        {"seconds": 1.0, "processor_seconds": 2.0},
    ],
    ids=["too short", "the cores were busy all the time"],
)
def test_a_pass_that_says_nothing_of_devices(change: dict[str, float]) -> None:
    seen = replace(observe(cubes(64), cubes(128), (SLOW, SLOW)), **change)
    assert list(learn_devices(seen, (NVME, NVME), CORES)) == []


def test_a_little_array_says_nothing() -> None:
    seen = observe(cubes(64), cubes(128), (SLOW, SLOW))
    little = replace(seen, reads=replace(seen.reads, bytes=1000), writes=replace(seen.writes, bytes=1000))
    assert list(learn_devices(little, (NVME, NVME), CORES)) == []
    assert list(learn_work(little, NVME, CORES)) == []


def test_one_run_changes_no_speed_without_limit() -> None:
    seen = replace(observe(cubes(64), cubes(128), (NVME, NVME)), seconds=1e6)
    learned = list(learn_devices(seen, (NVME, NVME), CORES))
    assert len(learned) == 2
    for _, _, value in learned:
        assert value >= min(NVME.read_bytes_per_second, NVME.write_bytes_per_second) / 20


def test_waiting_for_memory_is_not_the_devices_fault() -> None:
    seen = observe(cubes(64), cubes(128), (NVME, NVME))
    plain = list(learn_devices(seen, (NVME, NVME), CORES))
    stalled = replace(seen, seconds=seen.seconds * 1.25, stall=1.25)
    assert [value for _, _, value in learn_devices(stalled, (NVME, NVME), CORES)] == pytest.approx(
        [value for _, _, value in plain]
    )


def test_small_and_large_accesses_have_speeds_of_their_own() -> None:
    assert {access("read", cubes(length)) for length in (8, 32, 64, 128)} == {"read small", "read medium", "read large"}
    samples = {("disk", "read small"): 1e8}
    device = learned_device(NVME, "disk", "disk", lambda *key: samples.get(key), (cubes(8), cubes(8)), CORES)
    assert device.read_bytes_per_second == 1e8
    device = learned_device(NVME, "disk", "disk", lambda *key: samples.get(key), (cubes(128), cubes(128)), CORES)
    assert device.read_bytes_per_second == 1e8, "better than nothing"


def test_stored_bytes_are_what_a_device_moves() -> None:
    source, target = cubes(64), cubes(128)
    reads = traffic(source.objects, source, Access.UNITS)
    writes = traffic(target.objects, target, Access.UNITS, writing=True)
    free = replace(NVME, memory_bytes_per_second=1e18, visit_seconds=0, make_seconds=0)
    whole = float(pass_seconds(reads, writes, source, target, (free, free)))
    half = float(pass_seconds(reads, writes, replace(source, stored_part=0.5), target, (free, free)))
    assert whole - half == pytest.approx(reads.bytes / 2 / NVME.read_bytes_per_second)


def test_the_shorter_one_of_moving_and_working_counts_in_part() -> None:
    source, target = cubes(64), cubes(128)
    reads = traffic(source.objects, source, Access.UNITS)
    writes = traffic(target.objects, target, Access.UNITS, writing=True)
    idle = replace(NVME, memory_bytes_per_second=1e18, visit_seconds=0, make_seconds=0)
    busy = replace(idle, memory_bytes_per_second=10e9)
    one, two = (float(pass_seconds(reads, writes, source, target, (device, device))) for device in (idle, busy))
    assert two - one == pytest.approx(SERIAL * writes.bytes / 10e9)
