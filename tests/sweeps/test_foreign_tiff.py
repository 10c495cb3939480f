"""TIFF files of imagecodecs and scikit-image: read as tifffile reads them, and unchanged after a way through others."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.errors import ReblockError
from sweeps.sdists import unpacked

tifffile = pytest.importorskip("tifffile")
pytestmark = pytest.mark.faults

#: First bytes of TIFF and BigTIFF.
MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
#: Distributions, and how many files of each must be read for the sweep to mean something.
DISTRIBUTIONS = {"imagecodecs": 40, "scikit-image": 5}


def files(name: str) -> list[Path]:
    """The TIFF files of a distribution; skipped where it cannot be fetched."""
    try:
        folder = unpacked(name)
    except OSError as error:
        pytest.skip(str(error))
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path for path in found if path.read_bytes()[:4] in MAGIC]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_files_of_others(name: str, tmp_path: Path) -> None:
    reasons: Counter[str] = Counter()
    read = 0
    for path in files(name):
        try:
            array = reblock.open(path)
        except ReblockError as error:
            reasons[str(error).partition(": ")[2][:60]] += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = tifffile.imread(path, _multifile=False)
        assert np.array_equal(array[...], expected, equal_nan=expected.dtype.kind in "fc"), path
        read += 1
        if expected.dtype.kind == "b":
            continue
        for way in ("x.zarr", "x.h5", "x.npy"):
            reblock.repartition(path, tmp_path / way)
            reblock.repartition(tmp_path / way, tmp_path / "y.tif")
            assert np.array_equal(tifffile.imread(tmp_path / "y.tif"), expected), (path, way)
            for made in (way, "y.tif"):
                there = tmp_path / made
                shutil.rmtree(there) if there.is_dir() else there.unlink()
    print(f"\n{name}: {read} files read; refused: {dict(reasons)}")
    assert read >= DISTRIBUTIONS[name]
