"""Elements as bytes: a long double has bytes that hold no value, and nothing that was in memory may be in them."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
import pytest

import reblock
from reblock.engine import native
from reblock.model import clear_padding, element

pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long doubles have no padding here")

TYPES = ["<f16", ">f16", "<c32", ">c32"]


def padding(array: npt.NDArray[np.generic]) -> set[int]:
    """The bytes of long doubles that hold no value."""
    parts = array.reshape(-1).view(np.uint8).reshape(-1, 16)
    return set((parts[:, 10:] if array.dtype.isnative else parts[:, :6]).ravel().tolist())


@pytest.mark.parametrize("dtype", TYPES)
def test_padding_is_cleared_and_values_are_kept(dtype: str) -> None:
    whole = np.frombuffer(bytearray(b"\xcc" * np.dtype(dtype).itemsize * 12), dtype).reshape(3, 4)
    whole[...] = np.arange(12).reshape(3, 4) / 7
    wanted = whole.copy()
    clear_padding(whole.T[1:3, ::2])
    assert (whole == wanted).all()
    assert padding(whole.T[1:3, ::2].copy()) == {0}
    assert element(whole[2, 3], whole.dtype) == wanted[2, 3]
    assert padding(element(whole[2, 3], whole.dtype)) == {0}


@pytest.mark.parametrize("compiled", [True, False])
def test_no_memory_gets_into_what_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    if not compiled:
        monkeypatch.setattr(native, "library", lambda: None)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("d", (8, 6), np.longdouble, chunks=(4, 6), fillvalue=np.longdouble(1) / 3)
        made[:3] = 1
        wanted = made[...]
    for name, options in ("b.npy", {}), ("c.h5", {"chunks": (3, 4)}), ("d/", {"chunks": (3, 4)}):
        reblock.repartition(tmp_path / "a.h5", f"{tmp_path}/{name}", **options)
        assert reblock.verify(tmp_path / "a.h5", f"{tmp_path}/{name}")
    found = np.load(tmp_path / "b.npy")
    assert (found == wanted).all()
    assert padding(found[4:]) == {0}  # of the chunk that is not stored; h5py wrote what is in the other
    fill = json.loads((tmp_path / "d/reblock.json").read_text())["fill_value"]
    assert fill == element(np.longdouble(1) / 3, np.dtype(np.longdouble)).tobytes().hex()


@pytest.mark.parametrize("dtype", TYPES)
def test_no_memory_gets_into_what_is_converted(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "a.npy", np.arange(24, dtype="f4").reshape(4, 6) / 7)
    reblock.repartition(tmp_path / "a.npy", tmp_path / "b.npy", dtype=dtype)
    found = np.load(tmp_path / "b.npy")
    assert (found == np.load(tmp_path / "a.npy")).all()
    assert padding(found) == {0}
