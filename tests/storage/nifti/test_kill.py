"""Volumes in compressed files: a killed run goes on, and the file is the same; real templates come back."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import nibabel
import numpy as np
import pytest

import reblock
from sweeps.sdists import unpacked

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("ending", [".nii.gz", ".nii", ".mnc"])
def test_killed_at_random_moments(ending: str, tmp_path: Path) -> None:
    chance, target = random.Random(ending), tmp_path / f"y{ending}"
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 99, (160, 300, 400), np.int16))
    words = [sys.executable, "-m", "reblock", "run", tmp_path / "x.npy", target, "--memory", "32MiB", "--quiet"]
    words += ["--codec", "gzip:6", "--chunks", "160,300,8"] if ending != ".nii" else []
    kills = 0
    for _ in range(20):
        with subprocess.Popen(words) as process:
            try:
                process.wait(chance.uniform(0.3, 1.5))
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
        if target.exists():
            break
        time.sleep(0.05)
    if not target.exists():
        subprocess.run(words, check=True)
    assert kills
    assert reblock.verify(tmp_path / "x.npy", target).equal
    assert reblock.verify(tmp_path / "x.npy", target, reader="library").equal
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", target.name]


def test_templates_of_nilearn(tmp_path: Path) -> None:
    try:
        files = sorted(unpacked("nilearn").rglob("*.nii.gz"))
    except OSError as error:
        pytest.skip(str(error))
    templates = [file for file in files if "mni" in file.name.lower()]
    assert templates
    for number, file in enumerate(templates[:6]):
        for between in (f"{number}.zarr", f"{number}.h5"):
            reblock.repartition(file, tmp_path / between, memory="64MiB")
            reblock.repartition(tmp_path / between, tmp_path / f"{between}.nii", memory="64MiB")
            one, other = nibabel.load(file), nibabel.load(tmp_path / f"{between}.nii")
            assert other.header == one.header
            assert (
                np.asarray(other.dataobj.get_unscaled()).tobytes() == np.asarray(one.dataobj.get_unscaled()).tobytes()
            )
