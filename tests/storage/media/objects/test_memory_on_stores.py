"""Peak memory of runs on a store: bodies of requests, files that are built, and their upload are inside the budget."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import reblock
from s3_server import S3Server

#: What a process may take beside its budget.
SLACK_BYTES = 16 << 20
SCRIPT = """
import json, re, sys
import reblock
def status(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
source, target, memory, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
# The first runs load libraries.
for _ in range(2):
    reblock.repartition(source, target, memory=memory, overwrite=True, **options)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
reblock.repartition(source, target, memory=memory, overwrite=True, **options)
print(status("VmHWM") - before)
"""


@pytest.mark.faults
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="peaks of memory cannot be reset here")
@pytest.mark.parametrize("memory", [8 << 20, 16 << 20, 64 << 20])
@pytest.mark.parametrize(
    ("source", "target"), [("a.zarr", "b.h5"), ("a.zarr", "b.nii"), ("a.zarr", "b.tif"), ("a.h5", "b.zarr")]
)
def test_the_budget_covers_bodies_and_uploads(s3: S3Server, bucket: str, source: str, target: str, memory: int) -> None:
    data = np.random.default_rng(0).integers(0, 1 << 31, (64, 256, 512), "<i4")
    reblock.repartition(data, f"{bucket}/{source}", chunks=(32, 64, 128), codec="none")
    chunks = {"b.h5": "[16, 64, 128]", "b.zarr": "[64, 16, 256]"}.get(target)
    environment = os.environ | {name.upper(): value for name, value in s3.options.items()}
    done = subprocess.run(
        [
            *(sys.executable, "-c", SCRIPT, f"{bucket}/{source}", f"{bucket}/{target}", str(memory)),
            f'{{"chunks": {chunks}}}' if chunks else "{}",
        ],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
        check=True,
    )
    peak = int(done.stdout)
    print(f"{source} → {target}: {peak >> 20} MiB with a budget of {memory >> 20} MiB")
    assert peak <= memory + SLACK_BYTES
