"""Arrays without axes keep every bit: an element that becomes a numpy scalar on the way does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock

#: Elements whose bits a numpy scalar does not keep, or cannot be made of.
ELEMENTS: dict[str, tuple[bytes, bytes]] = {
    "|b1": (b"\1", b"\2"),
    "<f2": (b"\1\x7c", b"\1\x7e"),
    "<f4": (b"\1\0\x80\x7f", b"\1\0\xc0\x7f"),
    "<f8": (b"\1\0\0\0\0\0\xf0\x7f", b"\1\0\0\0\0\0\xf8\x7f"),
    ">f4": (b"\x7f\x80\0\1", b"\x7f\xc0\0\1"),
    "<c8": (b"\1\0\x80\x7f\0\0\0\x80", b"\1\0\x80\x7f\0\0\0\0"),
    "<U2": (b"a\0\0\0\xff\xff\xff\xff", b"a\0\0\0\xff\xff\xff\x7f"),
    "|S3": (b"a\0b", b"a\0c"),
    "|V3": (b"\0\0\1", b"\0\1\0"),
    "<M8[s]": (b"\0\0\0\0\0\0\0\x80", b"\1\0\0\0\0\0\0\x80"),
}
TARGETS: dict[str, dict[str, Any]] = {
    "y.npy": {},
    "y/": {},
    "y.zarr": {"codec": "gzip:1"},
    "two.zarr": {"to_format": "zarr2"},
    "y.h5": {},
}
#: Every target for the type that fails first, every type in the format that holds them all.
CASES = sorted({*(("|b1", target) for target in TARGETS), *((dtype, "two.zarr") for dtype in ELEMENTS)})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def save(path: str, dtype: str, data: bytes) -> None:
    np.save(path, np.frombuffer(data, dtype).reshape(()))


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_verify_sees_every_bit(dtype: str, shape: tuple[int, ...]) -> None:
    for name, data in zip(("x.npy", "y.npy"), ELEMENTS[dtype], strict=True):
        np.save(name, np.frombuffer(data, dtype).reshape(shape))
    verdict = reblock.verify("x.npy", "y.npy")
    assert not verdict.equal
    assert verdict.source_digest != verdict.target_digest
    assert reblock.verify("x.npy", "x.npy").equal


@pytest.mark.parametrize(("dtype", "target"), CASES)
def test_a_run_keeps_every_bit(dtype: str, target: str) -> None:
    one, other = ELEMENTS[dtype]
    save("x.npy", dtype, one)
    save("other.npy", dtype, other)
    try:
        report = reblock.repartition("x.npy", target, **TARGETS[target])
    except reblock.UsageError as error:
        pytest.skip(str(error))
    assert reblock.verify("x.npy", target).target_digest == report.digest
    assert reblock.verify("x.npy", target).equal
    assert not reblock.verify("other.npy", target).equal
    back = reblock.repartition(target, "back.npy")
    assert back.digest == report.digest
    assert Path("back.npy").read_bytes() == Path("x.npy").read_bytes()


def test_the_library_that_writes_boxes_gets_every_bit() -> None:
    """lzf is applied by HDF5 itself, which takes arrays, not bytes."""
    pytest.importorskip("h5py")
    np.save("x.npy", np.frombuffer(b"\1\2\3\0", "|b1"))
    reblock.repartition("x.npy", "y.h5", codec="lzf", chunks=(2,))
    assert reblock.verify("x.npy", "y.h5").equal
