"""A run leaves the page cache to others: neither its source nor its target stays there."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import reblock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel in Linux's way")
#: Reads that leave nothing in the page cache.
DONTCACHE = 0x80


def cached_pages(path: Path) -> int:
    """Pages of a file that are in the page cache."""
    size = path.stat().st_size
    if not size:
        return 0
    # A private mapping is writable, so that its address can be asked for; nothing is touched.
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        held = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapped)
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), held) == 0
        del start
        return sum(flags & 1 for flags in held)


def chunks_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".json"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder on a disk that knows how to forget, with an array that was just written."""
    probe = tmp_path / "probe"
    probe.write_bytes(bytes(mmap.PAGESIZE))
    with probe.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if cached_pages(probe):
            pytest.skip("files here live in memory")
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, DONTCACHE)
        except OSError:
            pytest.skip("the system has no reads that leave the page cache alone")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((32, 64, 64)))
    return tmp_path


@pytest.mark.parametrize("codec", ["none", "zstd:1"])
@pytest.mark.parametrize("chunks", ["8,16,32", "32,32,32"], ids=["small", "large"])
def test_nothing_stays_behind(codec: str, chunks: str, here: Path) -> None:
    reblock.repartition(here / "x.npy", here / "source.zarr", chunks=chunks, codec=codec)
    reblock.repartition(here / "source.zarr", here / "target.zarr", chunks="16,8,64" if "8" in chunks else "16,64,32")
    for name in ("source.zarr", "target.zarr"):
        files = chunks_of(here / name)
        assert len(files) > 3
        assert [path.name for path in files if cached_pages(path)] == []
