"""Calibration: a Device comes out that loads back, and nothing stays behind. No timing is asserted."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from reblock.api.devices import find_device
from reblock.bench import device as bench_device
from reblock.bench.device import check_output, measure_device, save_device
from reblock.bench.threads import run_threads
from reblock.cli.application import application
from reblock.cost import PRESETS
from reblock.errors import DiskError, UsageError
from reblock.model import Device


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_device, "_SLICE_SECONDS", 0.005)
    monkeypatch.setattr(bench_device, "_FILES", 8)
    monkeypatch.setattr(bench_device, "CODECS", ("zstd", "shuffle"))


#: Properties of a device that only its description can name.
NOT_MEASURED = ("far_seek_seconds", "travel_seconds_per_byte", "switch_seconds")


def test_what_is_measured_loads_back(tmp_path: Path) -> None:
    told: list[str] = []
    device = measure_device(tmp_path, size="1MiB", name="mine", notify=told.append)
    assert device.name == "mine"
    assert device.depth in bench_device.DEPTHS
    assert Device.from_json(json.loads(json.dumps(device.to_json()))) == device
    numbers = {key: value for key, value in device.to_json().items() if isinstance(value, float)}
    assert all(value > 0 for key, value in numbers.items() if key not in NOT_MEASURED)
    for rates in (device.decode_bytes_per_second, device.encode_bytes_per_second):
        assert set(rates) == {"zstd", "shuffle", "default"}
    assert os.listdir(tmp_path) == []
    assert told[0] == "sequential writes and reads"
    assert told[-1] == "a run from many.zarr to b.npy"


@pytest.mark.parametrize("codec", ["gzip", "zlib", "zstd", "lz4", "blosc", "lzf", "shuffle", "bz2", "lzma"])
def test_every_codec_of_the_presets_finds_a_format(tmp_path: Path, codec: str) -> None:
    store = bench_device._empty_store(str(tmp_path / "x"), codec)
    assert store is not None
    assert store.schema.codec.names == (codec,)
    store.abort()


def test_presets_name_no_codec_that_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    named = {name for preset in PRESETS.values() for name in preset.decode_bytes_per_second}
    assert named - {"default"} <= set(bench_device.CODECS)


def test_a_file_system_without_direct_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_device, "_direct_flag", lambda _: 0)
    assert measure_device(tmp_path, size="1MiB").read_bytes_per_second > 0


@pytest.mark.parametrize(("number", "passes"), [(errno.EINVAL, True), (errno.EACCES, False)])
def test_direct_access_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, passes: bool) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", refuse)
    if passes:
        assert bench_device._direct_flag(str(tmp_path)) == 0
        assert os.listdir(tmp_path) == []
    else:
        with pytest.raises(PermissionError):
            bench_device._direct_flag(str(tmp_path))


@pytest.mark.parametrize("step", ["_read_rate", "_seeks", "learn_from_runs", "_codec_rates"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "I/O error")])
def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(bench_device, step, fail)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else DiskError):
        measure_device(tmp_path, size="1MiB")
    assert os.listdir(tmp_path) == []


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="at least 1 MiB"):
        measure_device(tmp_path, size="4KiB")
    with pytest.raises(DiskError, match="ENOENT"):
        measure_device(tmp_path / "nowhere", size="1MiB")
    monkeypatch.setattr(bench_device.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(UsageError, match=r"1\.00 MiB free"):
        measure_device(tmp_path, size="1MiB")


def test_a_full_disk_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: write(fd, memoryview(data)[:4096], offset))
    with pytest.raises(OSError, match="No space left"):
        bench_device._write_rate(str(tmp_path / "x"), 1 << 20, 0)


# ---------------------------------------------------------------- threads against the clock
def test_a_race_adds_up() -> None:
    done, elapsed = run_threads([[1, 2], [3], []])
    assert done == 6
    assert elapsed > 0


def test_a_race_ends_when_time_is_up() -> None:
    done, _ = run_threads([itertools.repeat(1), itertools.repeat(1)], 0.01)
    assert done > 1


def test_a_race_ends_when_one_fails() -> None:
    def fail():
        yield 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_threads([fail(), itertools.repeat(1)])


@pytest.mark.parametrize(
    ("rates", "depth"),
    [
        ({1: 100, 2: 190, 4: 350, 8: 360, 16: 380}, 4),
        ({1: 100, 2: 100, 4: 90, 8: 80, 16: 70}, 1),
        ({1: 100, 2: 110, 4: 118, 8: 300, 16: 610}, 16),
    ],
)
def test_depth_and_latency_give_the_rate_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rates: dict[int, int], depth: int
) -> None:
    """What plans divide again, seek_seconds / depth, is the time per read at that depth."""
    file = tmp_path / "x"
    file.write_bytes(bytes(1 << 16))
    monkeypatch.setattr(bench_device, "run_threads", lambda jobs, *_: (rates[len(jobs)], 1.0))
    found, seek = bench_device._seeks(str(file), 1 << 16, 0)
    assert found == depth
    assert seek / found == pytest.approx(1 / rates[depth])


# ---------------------------------------------------------------- the file
def test_a_calibration_is_kept_and_renewed(tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    save_device(PRESETS["hdd"], file)
    assert find_device(str(file)) == PRESETS["hdd"]
    save_device(PRESETS["ssd"], file)
    assert find_device(str(file)) == PRESETS["ssd"]
    assert os.listdir(tmp_path) == ["d.json"]


def test_nothing_else_is_written_over(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(b"data")
    with pytest.raises(UsageError, match="is not a calibration"):
        save_device(PRESETS["hdd"], file)
    assert file.read_bytes() == b"data"
    with pytest.raises(UsageError, match="its folder does not exist"):
        check_output(tmp_path / "no" / "d.json")


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(DiskError, match="ENOSPC"):
        save_device(PRESETS["hdd"], tmp_path / "d.json")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- the command
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["bench", "device", ".", "--size", "1MiB", "--output", "d.json"]
    shown = CliRunner().invoke(application, words)
    assert shown.exit_code == 0, shown.output
    assert "--device" in shown.stdout
    assert shown.stderr == ""
    document = json.loads(CliRunner().invoke(application, [*words, "--json"]).stdout)
    assert find_device("d.json").to_json() == document
    described = ["--shape", "14,14", "--dtype", "u2", "--source-chunks", "2,14", "--chunks", "14,2"]
    planned = CliRunner().invoke(application, ["plan", *described, "--device", "d.json", "--json"])
    assert json.loads(planned.stdout)["problem"]["device"] == "measured"
    assert os.listdir() == ["d.json"]


def test_a_bad_output_is_refused_before_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_device, "measure_device", lambda *_, **__: pytest.fail("measured"))
    file = tmp_path / "x"
    file.write_bytes(b"data")
    result = CliRunner().invoke(application, ["bench", "device", str(tmp_path), "--output", str(file)])
    assert result.exit_code == 1
    assert "is not a calibration" in result.stderr


def test_without_a_subcommand_help_is_shown() -> None:
    result = CliRunner().invoke(application, ["bench"])
    assert result.exit_code == 0
    assert "device" in result.stdout
    assert "papers" in result.stdout


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C while threads read and write."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from reblock.bench import device as bench_device; bench_device._SLICE_SECONDS = 30\n"
        "from reblock.cli import main; main()"
    )
    words = [sys.executable, "-c", code, "bench", "device", str(tmp_path), "--size", "8MiB", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".reblock-bench-*/large")) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert os.listdir(tmp_path) == []
