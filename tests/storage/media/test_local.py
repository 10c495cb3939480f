"""Files: transfers past the page cache, short reads, and errors that name path and errno."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.engine.memory.arena import allocate
from reblock.errors import DiskError
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES
from reblock.storage.media import local
from reblock.storage.media.local import LOCAL


@pytest.fixture
def direct(tmp_path: Path) -> bool:
    """Whether files here can be opened past the page cache."""
    (tmp_path / "probe").write_bytes(b"")
    with LOCAL.reader(str(tmp_path / "probe"), direct=True) as handle:
        return handle.direct


@pytest.mark.parametrize("size", [DIRECT_BYTES, DIRECT_BYTES + 1, 3 * DIRECT_BYTES - 7, PAGE_BYTES * 100])
def test_runs_come_past_the_cache(size: int, direct: bool, tmp_path: Path) -> None:
    if not direct:
        pytest.skip("the file system has no direct transfers")
    path = str(tmp_path / "x")
    flat = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    Path(path).write_bytes(flat.tobytes())
    with LOCAL.reader(path, direct=True) as handle:
        for offset, length in ((0, size), (13, size - 13), (PAGE_BYTES, 5), (size - 3, 3)):
            found, count = handle.read_run(allocate(size + 2 * PAGE_BYTES), offset, length)
            assert count == length
            assert found.tobytes() == flat[offset : offset + length].tobytes()
        assert handle.read_run(allocate(size), size - 2, 10)[1] == 2
        assert handle.read_run(allocate(size), size + 99999, 10)[1] == 0


def test_a_file_system_without_direct_transfers_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = local.os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & local._DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, mode)

    monkeypatch.setattr(local.os, "open", refuse)
    data = bytes(DIRECT_BYTES + 5)
    (tmp_path / "x").write_bytes(data)
    with LOCAL.reader(str(tmp_path / "x"), direct=True) as handle:
        assert not handle.direct
        found, _ = handle.read_run(allocate(len(data)), 0, len(data))
    assert found.tobytes() == data


@pytest.mark.parametrize(
    ("source", "target"), [("x.npy", "x.zarr"), ("x.zarr", "y/"), ("y/", "z.npy"), ("x.zarr", "x.h5")]
)
def test_large_chunks_of_odd_sizes(source: str, target: str, tmp_path: Path) -> None:
    array = np.random.default_rng(1).integers(0, 1 << 30, (173, 151, 61), "i4")
    np.save(tmp_path / "x.npy", array)
    if source != "x.npy":
        reblock.repartition(tmp_path / "x.npy", f"{tmp_path}/{source}", chunks=(67, 61, 59))
    options = {} if target.endswith("npy") else {"chunks": (101, 43, 61)}
    report = reblock.repartition(f"{tmp_path}/{source}", f"{tmp_path}/{target}", memory="8MiB", **options)
    assert report.measured.peak_bytes <= 8 << 20
    assert np.array_equal(reblock.open(f"{tmp_path}/{target}")[...], array)


def test_errors_name_path_and_errno(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(DiskError, match=r"creating .*x/y.*ENOTDIR") as caught:
        LOCAL.writer(str(tmp_path / "x" / "y"))
    assert caught.value.errno == errno.ENOTDIR
    with pytest.raises(FileNotFoundError):
        LOCAL.reader(str(tmp_path / "nothing"))
