"""The power goes off while a run writes: what the journal has named is there, and the run goes on to the same bits."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import TargetExistsError

HERE = Path(__file__).resolve().parent
#: How a file system is made, and its smallest size.
MAKERS = {"ext4": (["mkfs.ext4", "-q", "-F"], 48 << 20), "xfs": (["mkfs.xfs", "-q", "-f"], 320 << 20)}
#: 1 = what the file system has logged gets to the disk, 2 = not even that.
FLAGS = (1, 2)
TARGETS: dict[str, dict[str, Any]] = {
    "y.npy": {"transpose": "0,2,1"},
    "y": {"chunks": "12,10,11", "to_format": "blocks"},
    "y.zarr": {"chunks": "12,10,11", "codec": "zstd:1"},
    "y.h5": {"chunks": "12,10,11"},
    "z.h5": {"chunks": "12,10,11", "codec": "gzip:1"},
}
MEMORY = {"memory": "64KiB", "strategy": "keep"}


def run(*words: object) -> str:
    """Why a command failed, or nothing."""
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120)
    except FileNotFoundError:
        return f"there is no {words[0]}"
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    if trouble := run("mount", "-o", "loop", image, folder):
        pytest.skip(f"images cannot be mounted here: {trouble}")
    try:
        yield folder
    finally:
        assert run("umount", folder) == ""


@pytest.fixture(params=MAKERS)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An empty file system in a file."""
    words, size = MAKERS[request.param]
    path = tmp_path / f"{request.param}.img"
    with path.open("wb") as file:
        file.truncate(size)
    if trouble := run(*words, path):
        pytest.skip(f"{request.param}: {trouble}")
    (tmp_path / "disk").mkdir()
    yield path
    path.unlink()


def lose_power(image: Path, source: Path, target: str, flag: int, part: float) -> int:
    """Run with a power loss, remount, and go on; says how many boxes were found finished."""
    options = {**TARGETS[target], **MEMORY}
    disk = image.parent / "disk"
    with mounted(image, disk):
        words = [flag, part, source, disk / target, json.dumps(options)]
        done = subprocess.run(
            [sys.executable, HERE / "power_run.py", *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done
        promised = int(done.stdout)
    with mounted(image, disk):
        # A run that has ended has made its last rename durable; its leftovers may be there again.
        assert (disk / target).exists() == (part > 1), done
        try:
            report = reblock.repartition(source, disk / target, **options)
        except TargetExistsError:
            assert part > 1, done
            found = promised
        else:
            found = report.resumed_boxes
            assert not any("done again" in note or "made again" in note for note in report.notes), (report.notes, done)
        assert found >= promised, (found, done)
        expected = np.load(source).view("u4")
        expected = expected.transpose(0, 2, 1) if "transpose" in options else expected
        assert np.array_equal(reblock.open(disk / target)[...].view("u4"), expected)
        assert {path.name for path in disk.iterdir()} - {"lost+found"} <= {target, f".{target}.reblock"}
        for path in disk.iterdir():
            if path.name != "lost+found":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return found


def test_the_power_goes_off(image: Path, here: Path) -> None:
    assert lose_power(image, here / "x.npy", "z.h5", 2, 0.7) > 0


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("flag", FLAGS)
def test_the_power_goes_off_at_many_points(image: Path, here: Path, flag: int) -> None:
    """Fifty points, ten for each format, the last one after the run."""
    parts = (0.05, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
    found = [lose_power(image, here / "x.npy", target, flag, part) for target in TARGETS for part in parts]
    assert sum(boxes > 0 for boxes in found) > len(found) // 2
