"""What tests of buffers share: arrays on disk that dask reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

SHAPE = (60, 60, 60)


def numbers(shape: tuple[int, ...] = SHAPE, dtype: str = "u2") -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)


@pytest.fixture
def volume() -> np.ndarray[Any, Any]:
    return numbers()


@pytest.fixture
def dataset(tmp_path: Path, volume: np.ndarray[Any, Any]) -> Iterator[Any]:
    """A contiguous HDF5 dataset, open for reading."""
    with h5py.File(tmp_path / "volume.h5", "w") as file:
        file["x"] = volume
    with h5py.File(tmp_path / "volume.h5") as file:
        yield file["x"]
