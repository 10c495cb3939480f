"""Workloads: the figures of the bars, scales and names."""

from __future__ import annotations

import pytest

from peer_jobs import BY_NAME
from reblock.bench.peers.contenders import CONTENDERS
from reblock.bench.peers.workloads import WORKLOADS, Workload, find_workloads
from reblock.errors import UsageError


def test_workloads_are_the_ones_of_the_bars() -> None:
    """The figures that everything is held against, once more and by hand."""
    told = {w.name: (w.nbytes, w.memory_bytes >> 20, w.bar.factor, w.bar.references) for w in WORKLOADS}
    best = ("zarrs", "tensorstore", "zarr-python")
    assert told == {
        "W1": (840**3 * 4, 1024, 0.6, ("cp",)),
        "W2": (2 << 30, 512, 0.6, ("cp",)),
        "W3": (2 << 30, 512, 0.5, best),
        "W4": (512 << 20, 512, 0.33, ("h5py", "nccopy", "h5repack")),
        "W5": (2 << 30, 512, 0.8, ("cp",)),
        "W6": (256 << 20, 128, 0.6, ("tensorstore", "zarrs")),
        "W6-shards": (256 << 20, 128, 0.6, ("tensorstore", "zarrs")),
        "nifti-split": (1 << 30, 512, 0.5, ("nibabel",)),
        "nifti-merge": (1 << 30, 512, 0.5, ("nibabel",)),
        "netcdf-zarr": (1 << 30, 512, 0.5, ("xarray",)),
        "netcdf-plain": (1 << 30, 512, 0.5, ("xarray", "nccopy")),
        "netcdf-nccopy": (1 << 30, 512, 0.5, ("nccopy",)),
        "tiff-zarr": (1 << 30, 512, 0.5, ("tifffile",)),
        "tiff-blosc": (1 << 30, 512, 0.5, ("tifffile",)),
    }
    limited = {w.name: w.bar.limit_factor for w in WORKLOADS if w.bar.limit_factor is not None}
    assert limited == dict.fromkeys([name for name in told if name.startswith(("netcdf", "tiff", "nifti"))], 1.15)
    assert BY_NAME["W6-shards"].shards == (256, 256, 256)
    assert {name for w in WORKLOADS for name in w.bar.references} <= {c.name for c in CONTENDERS}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("scale", [1, 3, 16, 5000])
def test_a_scaled_workload_is_still_one(workload: Workload, scale: int) -> None:
    scaled = workload.scaled(scale)
    assert all(n >= 1 for part in (scaled.shape, scaled.chunks, scaled.source_chunks) for n in part)
    assert 1 << 20 <= scaled.memory_bytes <= workload.memory_bytes
    if scaled.shards:
        assert all(s % c == 0 for s, c in zip(scaled.shards, scaled.chunks, strict=True))
    assert (scaled == workload) == (scale == 1)
    with pytest.raises(UsageError, match="at least 1"):
        workload.scaled(0)


def test_workloads_by_name() -> None:
    assert [w.name for w in find_workloads(["w6-shards", "W2"])] == ["W2", "W6-shards"]
    assert find_workloads([]) == WORKLOADS
    with pytest.raises(UsageError, match=r"no workload 'W7'.*W1"):
        find_workloads(["W7"])
