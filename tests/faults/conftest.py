"""What the tests of faults share: the rig, and jobs small enough to be run a thousand times."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from faults.rig import Rig

#: Files in memory, where a kill finds the same as on a disk and nobody waits for one.
MEMORY_DISK = Path("/dev/shm")


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("rig"))
    yield made
    made.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """A folder with a source of random bits."""
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else tmp_path) as name:
        folder = Path(name)
        bits = np.random.default_rng(0).integers(0, 2**32, (48, 40, 44), "u4")
        np.save(folder / "x.npy", bits.view("f4"))
        yield folder
