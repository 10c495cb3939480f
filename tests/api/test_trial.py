"""Trials of codecs: on the source's own data, and no more of it or of the user's time than was promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.api import trial
from reblock.api.trial import MAX_BYTES, MAX_DECODED, MAX_SECONDS, excerpt, made_up, try_encoding
from reblock.errors import CorruptError
from reblock.model import Codec, Store
from reblock.storage import registry
from reblock.storage.codecs.chain import Chain
from reblock.testing.recording import RecordingMedium

F4 = np.dtype("<f4")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(64, 128, 128)).astype(F4))
    return tmp_path / "x.npy"


def opened(path: Path) -> tuple[Store, RecordingMedium]:
    """An array whose reads are recorded."""
    medium = RecordingMedium()
    return medium.of(registry.open(path)), medium


def made(source: Path, codec: str, chunks: tuple[int, ...]) -> Path:
    target = source.with_suffix(".zarr")
    reblock.repartition(source, target, chunks=chunks, codec=codec, device="nvme")
    return target


def read_bytes(medium: RecordingMedium) -> int:
    return sum(stop - start for one in medium.openings for start, stop in one.ranges)


@pytest.mark.parametrize("chunks", [(64, 128, 128), (8, 32, 32)])
def test_a_little_of_a_raw_array(source: Path, chunks: tuple[int, ...]) -> None:
    for path in (source, made(source, "none", chunks)):
        store, medium = opened(path)
        found = excerpt(store, 1 << 30)
        assert found is not None
        assert found.decoding is None
        assert 0 < found.elements.size == read_bytes(medium) <= MAX_BYTES
        assert np.isfinite(found.elements.view(F4)).all()
        assert 0.9 < found.elements.view(F4).std() < 1.1, "the source's own data"


def test_a_unit_of_an_encoded_array(source: Path) -> None:
    store, medium = opened(made(source, "zstd:3", (16, 64, 64)))
    found = excerpt(store, 1 << 30)
    assert found is not None
    assert found.decoding is not None
    assert read_bytes(medium) <= MAX_BYTES
    assert found.elements.size == found.decoding.bytes == 16 * 64 * 64 * 4
    assert 0.5 < found.decoding.stored_part < 1
    assert found.decoding.bytes_per_second > 1e6


def test_no_more_than_a_mebibyte_is_read(tmp_path: Path) -> None:
    """The unit decodes quickly and is small enough, but is stored in more bytes than may be read."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2**32, (2, 1200, 1000), "<u4"))
    store, medium = opened(made(tmp_path / "x.npy", "zstd:1", (1, 1200, 1000)))
    assert store.layout.unit_bytes < MAX_DECODED
    assert excerpt(store, 1 << 30) is None
    assert read_bytes(medium) <= MAX_BYTES


def test_no_more_memory_is_taken_than_there_is(source: Path) -> None:
    store, medium = opened(made(source, "zstd:3", (16, 64, 64)))
    assert excerpt(store, store.layout.unit_memory_bytes - 1) is None
    assert read_bytes(medium) == 0
    raw, medium = opened(source)
    assert excerpt(raw, MAX_BYTES - 1) is None
    assert read_bytes(medium) == 0


def test_a_slow_decoder_is_given_less(source: Path) -> None:
    store, medium = opened(made(source, "bz2:9", (64, 128, 128)))
    assert excerpt(store, 1 << 30) is None
    assert read_bytes(medium) == 0


def test_what_cannot_be_decoded_is_left_to_the_run(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(source, "zstd:3", (16, 64, 64))
    for file in (path / "c").rglob("*"):
        if file.is_file():
            file.write_bytes(b"no chunk")
    assert excerpt(registry.open(path), 1 << 30) is None
    for file in (path / "c").rglob("*"):
        if file.is_file():
            file.unlink()
    assert excerpt(registry.open(path), 1 << 30) is None


# ---------------------------------------------------------------- encoding
class Clock:
    """Time that passes only where a codec works."""

    def __init__(self, seconds_per_byte: float) -> None:
        self.now, self.rate, self.tried = 0.0, seconds_per_byte, list[int]()

    def __call__(self) -> float:
        return self.now

    def encode(self, data: Any) -> Any:
        self.now += self.rate * data.size
        self.tried.append(data.size)
        return data[: data.size // 4]


@pytest.fixture
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(request.param)
    monkeypatch.setattr(trial, "perf_counter", made)
    monkeypatch.setattr(trial, "thread_time", made)
    monkeypatch.setattr(trial, "_load", lambda *_: None)
    monkeypatch.setattr(Chain, "encode", lambda _self, data: made.encode(data))
    return made


@pytest.mark.parametrize("clock", [1e-10, 1e-8, 1e-7, 1e-6], indirect=True)
def test_time_is_kept(clock: Clock) -> None:
    found = try_encoding(Codec.parse("zstd:3"), F4, np.zeros(4 * MAX_BYTES, np.uint8))
    assert found is not None
    assert clock.now <= MAX_SECONDS
    assert max(clock.tried) <= MAX_BYTES
    assert found.bytes_per_second == pytest.approx(1 / clock.rate)
    assert found.stored_part == 0.25
    if clock.rate < 1e-9:
        assert found.bytes == MAX_BYTES, "a fast one is tried on all that may be taken"


@pytest.mark.parametrize("clock", [1e-5], indirect=True)
def test_the_slowest_is_tried_once(clock: Clock) -> None:
    assert try_encoding(Codec.parse("lzma"), F4, np.zeros(MAX_BYTES, np.uint8)) is not None
    assert len(clock.tried) == 1


def test_real_codecs_tell_levels_apart() -> None:
    """Few distinct values: level 9 then searches long for better matches, ten times as long as level 1."""
    elements = np.random.default_rng(0).integers(0, 4, MAX_BYTES // 4, np.uint8)
    fast, slow = (try_encoding(Codec.parse(f"gzip:{level}"), F4, elements) for level in (1, 9))
    assert fast is not None
    assert slow is not None
    assert fast.bytes_per_second > slow.bytes_per_second
    assert 0 < slow.stored_part < 1


@pytest.mark.parametrize("dtype", ["<f4", ">i2", "u1", "?", "c16", "S3", "<M8[s]", "V5"])
def test_elements_of_every_kind_can_be_made_up(dtype: str) -> None:
    kind = np.dtype(dtype)
    elements = made_up(kind)
    assert elements.size % kind.itemsize == 0
    assert 0 < elements.size <= MAX_BYTES
    assert try_encoding(Codec.parse("zstd:1"), kind, elements) is not None


def test_a_codec_that_fails_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise CorruptError("no")

    monkeypatch.setattr(Chain, "encode", fail)
    assert try_encoding(Codec.parse("zstd:1"), F4, made_up(F4)) is None
