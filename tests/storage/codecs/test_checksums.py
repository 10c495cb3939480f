"""Checksums and shuffling: the same bytes as numcodecs, and as HDF5."""

from __future__ import annotations

from pathlib import Path

import h5py
import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs.checksum32 import CRC32C, JenkinsLookup3

from reblock.model.codec import Stage
from reblock.storage.codecs import checksums
from reblock.storage.codecs.checksums import at_start, checksum, fletcher32
from reblock.storage.codecs.shuffle import shuffle, unshuffle
from reblock.testing.arrays import same_bits

RNG = np.random.default_rng(3)
THEIRS = {
    "crc32c": CRC32C(),
    "crc32": numcodecs.CRC32(),
    "adler32": numcodecs.Adler32(),
    "jenkins_lookup3": JenkinsLookup3(),
    "fletcher32": numcodecs.Fletcher32(),
}


@pytest.mark.parametrize("size", [1, 2, 3, 2047, 2048, 2049, 4096, 70_001])
@pytest.mark.parametrize("name", THEIRS)
def test_the_same_as_numcodecs(name: str, size: int) -> None:
    stage = Stage(name)
    for data in (RNG.integers(0, 256, size, np.uint8), np.zeros(size, np.uint8), np.full(size, 255, np.uint8)):
        theirs = np.frombuffer(THEIRS[name].encode(data), np.uint8)
        found = theirs[:4] if at_start(stage) else theirs[-4:]
        assert checksum(stage, data).to_bytes(4, "little") == found.tobytes()


def test_settings_count() -> None:
    data = np.arange(99, dtype=np.uint8)
    seeded = np.frombuffer(JenkinsLookup3(5).encode(data), np.uint8)[-4:]
    assert checksum(Stage.of("jenkins_lookup3", initval=5), data) == int.from_bytes(seeded.tobytes(), "little")
    assert not at_start(Stage.of("crc32", location="end"))
    assert at_start(Stage.of("crc32c", location="start"))


@given(st.binary(max_size=300), st.integers(1, 9), st.integers(1, 9))
def test_fletcher32_by_its_definition(data: bytes, width: int, rows: int) -> None:
    first = second = 0
    for high, low in zip(data[::2], (*data[1::2], 0), strict=False):
        first += high << 8 | low
        second += first
    sums = [(value - 1) % 65535 + 1 if value else 0 for value in (second, first)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "_WIDTH", width)
        patch.setattr(checksums, "_ROWS", rows)
        assert fletcher32(np.frombuffer(data, np.uint8)) == sums[0] << 16 | sums[1]


def test_fletcher32_of_hdf5(tmp_path: Path) -> None:
    data = RNG.integers(0, 256, 100_003, np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", data=data, chunks=data.shape, fletcher32=True)
        stored = dataset.id.read_direct_chunk((0,))[1]
    assert fletcher32(data) == int.from_bytes(stored[-4:], "little")


# ---------------------------------------------------------------- shuffle
@given(st.binary(max_size=200), st.integers(1, 20))
def test_shuffle_by_its_definition(data: bytes, width: int) -> None:
    flat = np.frombuffer(data, np.uint8)
    whole = len(data) // width * width
    expected = b"".join(data[number:whole:width] for number in range(width)) + data[whole:]
    planes = shuffle(flat, width, np.empty_like(flat))
    assert planes.tobytes() == expected
    assert unshuffle(planes, width, np.empty_like(flat)).tobytes() == data


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_shuffle_of_numcodecs(width: int) -> None:
    data = RNG.integers(0, 256, 48 * 99, np.uint8)
    planes = shuffle(data, width, np.empty_like(data))
    assert planes.tobytes() == bytes(numcodecs.Shuffle(width).encode(data))
    out = np.empty_like(data)
    assert same_bits(unshuffle(planes, width, out), data)
