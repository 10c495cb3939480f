"""Crop and transpose: take a region, reorder its axes and rechunk it, in one run."""

import tempfile
from pathlib import Path

import numpy as np

import reblock

with tempfile.TemporaryDirectory() as folder:
    scan, part = Path(folder, "scan.npy"), Path(folder, "part.zarr")
    values = np.random.default_rng(0).normal(size=(60, 80, 100)).astype("<f4")
    np.save(scan, values)

    # The region is in the source's axes, the chunks are in the target's.
    view = {"region": (slice(10, 50), slice(None), slice(5, 90)), "transpose": (2, 0, 1)}
    report = reblock.repartition(scan, part, chunks=(17, 40, 20), memory="4MiB", **view)

    array = reblock.open(part)
    print(f"{scan.name} {values.shape} -> {part.name} {array.shape}, chunks {array.chunks}")
    print(f"read {report.measured.read_amplification:.2f} × the region, peak {report.measured.peak_bytes:,} bytes")
    assert np.array_equal(array[...], values[10:50, :, 5:90].transpose(2, 0, 1))
    assert reblock.verify(scan, part, **view).equal

    # Index an opened array like a numpy array.
    print("one value:", array[0, 0, 0], "is", values[10, 0, 5])
