"""Convert: take one array through every format, and verify each copy."""

import tempfile
from pathlib import Path

import numpy as np

import reblock

with tempfile.TemporaryDirectory() as folder:
    here = Path(folder)
    scan = here / "scan.npy"
    np.save(scan, np.arange(60 * 80 * 100, dtype="<f4").reshape(60, 80, 100))

    # The format of a target follows from its name; "blocks/" ends in a slash, so it is a folder of block files.
    steps = [
        ("scan.zarr", {"chunks": (20, 40, 50), "codec": "zstd:3"}),
        ("scan.h5::/volume/data", {"chunks": (60, 8, 10), "codec": "shuffle+gzip:4"}),
        ("blocks/", {"chunks": (1, -1, -1)}),
        ("back.npy", {}),
    ]
    source = str(scan)
    for name, options in steps:
        target = f"{here}/{name}"
        report = reblock.repartition(source, target, memory="8MiB", **options)
        array = reblock.open(target)
        print(f"{name:24} {array.store.format:7} chunks {array.chunks}, peak {report.measured.peak_bytes:,} bytes")
        assert reblock.verify(scan, target).equal
        source = target

    assert np.array_equal(np.load(here / "back.npy"), np.load(scan))
    print("back.npy holds what scan.npy held")
