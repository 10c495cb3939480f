"""A run is a guest in its process: it leaves the allocator's settings as it found them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")

#: glibc maps blocks above a threshold. It starts at 128 KiB, and rises with the blocks that are freed, up to 32 MiB, as
#: long as nobody sets it. So a larger block is always mapped, and a smaller one no more once its like was freed.
SCRIPT = """
import ctypes, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import reblock

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in "fsmblks uordblks fordblks keepcost".split()]

c = ctypes.CDLL(None)
c.mallinfo2.restype, c.malloc.restype, c.free.argtypes = Counts, ctypes.c_void_p, [ctypes.c_void_p]
c.malloc.argtypes = [ctypes.c_size_t]

def is_mapped(size):
    before = c.mallinfo2().hblks
    block = c.malloc(size)
    after = c.mallinfo2().hblks
    c.free(block)
    return after > before

def run(name, codec):
    return reblock.repartition("x.npy", f"{name}.zarr", chunks=(64, 64), codec=codec, memory="16MiB", overwrite=True)

np.save("x.npy", np.random.default_rng(0).normal(size=(512, 512)).round(2))
how = sys.argv[1]
if how == "one run":
    run("a", "blosc:zstd:3")
elif how == "two runs at once":
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(run, ("a", "b"), ("zstd:3", "lz4")))
elif how == "a failed run":
    with open("x.npy", "r+b") as file:
        job = reblock.plan("x.npy", "a.zarr", chunks=(64, 64))
        file.truncate(10_000)
    try:
        reblock.run(job)
    except reblock.ReblockError:
        pass
    else:
        raise AssertionError("a file that was cut is read")
elif how == "a setting":
    c.mallopt(-3, 64 << 20)
print(is_mapped(40 << 20), is_mapped(20 << 20), is_mapped(20 << 20))
"""


def after(how: str, folder: Path) -> str:
    # distributed sets such variables for the workers that this process has started.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], cwd=folder, capture_output=True, text=True, check=False, env=plain
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("how", ["one run", "two runs at once", "a failed run"])
def test_settings_stay_as_they_were(how: str, tmp_path: Path) -> None:
    assert after("nothing", tmp_path) == "True True False"
    assert after(how, tmp_path) == "True True False"


def test_a_setting_would_be_seen(tmp_path: Path) -> None:
    assert after("a setting", tmp_path) != "True True False"
