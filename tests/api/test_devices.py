"""The device `auto`: from run to plan, from plan to run, and silent where nothing can be kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.api import devices
from reblock.api.machine import Load
from reblock.cost import PRESETS
from reblock.cost.learn import MACHINE
from reblock.model import Device
from reblock.runs.experience import RUNS, Sample, keep, recall
from reblock.storage.media.mounts import device_name

NVME = PRESETS["nvme"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, on a machine that others leave alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REBLOCK_CACHE")
    monkeypatch.setattr(Load, "crowded", lambda *_: False)
    return tmp_path / "cache" / "reblock" / "speeds.json"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """32 MiB: enough to learn from."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(128, 256, 256)).astype("<f4"))
    return tmp_path / "x.npy"


def disk(path: Path) -> str:
    name = device_name(str(path))
    assert name is not None
    return name


def planned(source: Path, **options: Any) -> reblock.Job:
    options = {"target": source.with_suffix(".zarr"), "chunks": (64, 64, 64), **options}
    return reblock.plan(source, **options)


def device_of(job: reblock.Job) -> Device:
    found: Device = job.decision.problem.device
    return found


def test_at_first_it_is_the_preset_and_says_so(cache: Path, source: Path) -> None:
    job = planned(source)
    found = device_of(job)
    assert found.name == f"auto: nvme preset, nothing measured yet on {disk(source)}"
    assert found.read_bytes_per_second == NVME.read_bytes_per_second
    assert found.name in job.explain()
    assert job.to_json()["problem"]["device"] == found.name
    assert not cache.exists(), "a plan leaves nothing"


def test_a_run_leaves_what_it_measured(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whether the device or the cores took longer depends on the machine; `learn_devices` has tests of its own.
    found = [(0, "read large", 1e9), (1, "write large", 5e8)]
    monkeypatch.setattr(devices, "learn_devices", lambda *_: iter(found))
    reblock.run(planned(source))
    samples = recall().samples
    assert set(samples) == {MACHINE, disk(source)}
    assert "scatter" in samples[MACHINE]
    assert set(samples[disk(source)]) >= {RUNS, "read large", "write large"}
    assert device_of(planned(source)).name == f"auto: 1 run on {disk(source)}"
    reblock.run(planned(source), overwrite=True)
    assert device_of(planned(source)).name == f"auto: 2 runs on {disk(source)}"


def test_plans_are_made_for_what_was_measured(cache: Path, source: Path) -> None:
    here = disk(source)
    keep([Sample(here, RUNS, 7), Sample(here, "read large", 1e8), Sample(here, "write large", 5e7)])
    keep([Sample(MACHINE, "encode zstd:3", 1e6), Sample(MACHINE, "part zstd:3", 0.25)])
    job = planned(source, codec="zstd:3")
    found = device_of(job)
    assert found.name == f"auto: 7 runs on {here}"
    assert (found.read_bytes_per_second, found.write_bytes_per_second) == (1e8, 5e7)
    assert found.encode_bytes_per_second["zstd:3"] == 1e6 * devices.cores()
    assert job.decision.problem.target.stored_part == 0.25
    assert job.cost.seconds > planned(source, device="nvme", codec="zstd:3").cost.seconds


def test_codecs_that_nobody_knows_are_tried(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = planned(source, codec="gzip:9")
    assert "; gzip:9 tried on " in device_of(first).name
    assert "gzip:9" in device_of(first).encode_bytes_per_second
    reblock.run(first)
    monkeypatch.setattr(devices, "try_encoding", lambda *_: pytest.fail("it is known"))
    again = planned(source, codec="gzip:9")
    assert "tried" not in device_of(again).name
    assert len(recall().samples[MACHINE]["encode gzip:9"]) == 2, "the trial, and the run"
    monkeypatch.undo()


def test_the_source_codec_is_tried_too(cache: Path, source: Path) -> None:
    encoded = source.with_name("e.zarr")
    reblock.repartition(source, encoded, chunks=(32, 32, 64), codec="blosc:zstd:3", device="nvme")
    job = planned(encoded, target=source.with_name("y.zarr"), codec="none")
    rates = device_of(job).decode_bytes_per_second
    assert [key for key in rates if key.startswith("blosc:")] == [str(job.decision.problem.source.codec)]
    assert 0 < job.decision.problem.source.stored_part < 1


@pytest.mark.parametrize("device", ["nvme", "hdd", NVME])
def test_a_device_that_is_named_reads_and_leaves_nothing(cache: Path, source: Path, device: str | Device) -> None:
    keep([Sample(disk(source), "read large", 1.0), Sample(disk(source), RUNS, 1)])
    before = cache.read_bytes()
    job = planned(source, device=device, codec="gzip:9")
    assert device_of(job).name == (device if isinstance(device, str) else "nvme")
    reblock.run(job)
    assert cache.read_bytes() == before


def test_switched_off_it_is_the_preset(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBLOCK_CACHE", "off")
    job = planned(source, codec="gzip:9")
    assert device_of(job).name == "nvme"
    assert device_of(job).encode_bytes_per_second == NVME.encode_bytes_per_second
    reblock.run(job)
    assert not cache.exists()


def test_shapes_alone_have_no_disk(cache: Path) -> None:
    job = reblock.plan(shape=(64, 64), dtype="u2", source_chunks=(64, 1), chunks=(1, 64))
    assert (
        job.decision.problem.device
        == reblock.plan(
            shape=(64, 64), dtype="u2", source_chunks=(64, 1), chunks=(1, 64), device="nvme"
        ).decision.problem.device
    )


def test_source_and_target_have_devices_of_their_own(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"x.npy": "/dev/one", "x.zarr": "/dev/two"}
    monkeypatch.setattr(devices, "device_name", lambda path: names[os.path.basename(path)])
    keep([Sample("/dev/one", "read large", 1e8), Sample("/dev/two", "write large", 2e8), Sample("/dev/two", RUNS, 3)])
    problem = planned(source).decision.problem
    first, scratch, last = problem.devices
    assert first.read_bytes_per_second == 1e8
    assert last.write_bytes_per_second == 2e8
    assert scratch == last != first
    assert last.name == "auto: 3 runs on /dev/two"
    given = planned(source, target_device="hdd").decision.problem
    assert [one.name for one in given.devices[1:]] == ["hdd", "hdd"]
    assert given.devices[0] == first


def test_other_processes_are_not_measured(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Load, "crowded", lambda *_: True)
    reblock.run(planned(source))
    assert not cache.exists()


@pytest.mark.parametrize(
    ("before", "after", "crowded"),
    [
        (Load(0, 0, 0), Load(10, 10, 9), False),
        (Load(0, 0, 0), Load(20, 0, 19), False),
        (Load(0, 0, 0), Load(20, 0, 10), True),
        (Load(5, 5, 5), Load(25, 5.5, 10), True),
        (Load(0, 0, 0), Load(10, 10, 1), False),
        (Load(0, 0, 0), Load(0, 0, 0), False),
        (Load(0, 0, 0), None, False),
    ],
    ids=["half idle", "all ours", "half others", "since then", "others, but idle", "no time", "not told"],
)
def test_a_machine_is_crowded_where_others_take_the_cores(before: Load, after: Load | None, crowded: bool) -> None:
    assert before.crowded(after) is crowded


def test_the_load_of_this_machine() -> None:
    first, second = Load.now(), Load.now()
    if first is None or second is None:
        pytest.skip("the system does not tell")
    assert second.busy >= first.busy >= first.own >= 0


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"version":1,"hosts":{"x":{"y":{"z":["a"]}}}}'])
def test_a_damaged_cache_makes_no_difference(cache: Path, source: Path, content: str) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text(content)
    assert "nothing measured yet" in device_of(planned(source)).name
    report = reblock.run(planned(source))
    assert report.write_boxes == 32
    assert json.loads(cache.read_text())["version"] == 1


def test_hostile_speeds_are_only_speeds(cache: Path, source: Path) -> None:
    """Whatever numbers are in the cache, a plan is made, it can be printed, and it is correct."""
    here, host = disk(source), os.uname().nodename
    for value in (1e-12, 1e15):
        quantities = ["read large", "write large", "open", "seek", "create"]
        machine = {"scatter": [value], "visit": [value], "make": [value]}
        content = {"version": 1, "hosts": {host: {here: {one: [value] for one in quantities}, MACHINE: machine}}}
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(content))
        job = planned(source)
        assert job.explain()
        json.dumps(job.to_json(), allow_nan=False)
        assert reblock.run(job, overwrite=True).measured.bytes_read == job.cost.bytes_read


def test_names_cannot_write_to_the_terminal(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device_name", lambda _: "server:/\x1b[31mred\n")
    assert "\x1b" not in planned(source).explain()


def test_a_folder_that_cannot_be_written_makes_no_difference(cache: Path, source: Path) -> None:
    cache.parent.parent.mkdir()
    cache.parent.write_text("in the way")
    assert reblock.run(planned(source)).write_boxes == 32
