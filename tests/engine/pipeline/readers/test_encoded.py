"""Encoded units: the compiled loop decodes what Python decodes, and leaves to it what is out of the ordinary."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numcodecs
import numpy as np
import pytest

import reblock
from reblock.engine import native
from reblock.engine.pipeline.readers import encoded
from reblock.model import Decoder
from reblock.model.codec import Codec
from reblock.storage import registry
from reblock.storage.codecs import registry as codecs
from reblock.storage.codecs import zstd

pytestmark = pytest.mark.skipif(native.library() is None, reason="the compiled loop was not built")

DECODED = ["blosc:lz4:5:shuffle", "blosc:zstd:3:bitshuffle", "blosc:blosclz:9:noshuffle", "zstd:1"]


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(native, "decoder", lambda _: None)
    return bool(request.param)


def field(shape: tuple[int, ...] = (20, 30, 14)) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype("<f4").round(1)


def stored(folder: Path, codec: str, **options: object) -> Path:
    np.save(folder / "x.npy", field())
    reblock.repartition(folder / "x.npy", folder / "a.zarr", chunks=(7, 30, 5), codec=codec, **options)
    return folder / "a.zarr"


@pytest.mark.parametrize("text", DECODED)
@pytest.mark.parametrize("options", [{}, {"to_format": "zarr2"}, {"shards": (14, 30, 10)}], ids=["v3", "v2", "shards"])
def test_what_is_decoded_is_the_same(text: str, options: dict, compiled: bool, tmp_path: Path) -> None:
    made = stored(tmp_path, text, **options)
    assert (native.decoder(registry.open(str(made)).decoder) is not None) == compiled
    report = reblock.repartition(made, tmp_path / "b.npy", region="1:19,:,2:", transpose=(2, 0, 1))
    assert np.array_equal(np.load(tmp_path / "b.npy"), field()[1:19, :, 2:].transpose(2, 0, 1))
    assert report.measured.bytes_read == report.predicted.bytes_read
    assert report.times.decode > 0


@pytest.mark.parametrize("text", ["bz2:1", "lz4:1", "zstd:1+crc32c", "none"])
def test_other_codecs_are_decoded_by_python(text: str, tmp_path: Path) -> None:
    assert registry.open(str(stored(tmp_path, text))).decoder is None


def test_a_library_that_exports_nothing_has_no_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codecs.decoder(Codec.parse("zstd:1")) is not None
    monkeypatch.setattr(zstd, "_MODULE", "numcodecs.lz4")
    zstd._decoder.cache_clear()
    assert codecs.decoder(Codec.parse("zstd:1")) is None
    zstd._decoder.cache_clear()


def test_a_decoder_of_another_kind_is_not_called() -> None:
    assert native.decoder(Decoder("snappy", (1,))) is None
    assert native.decoder(None) is None


def _flip(place: int, bits: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :]


def _unsized(data: bytes) -> bytes:
    """The same elements in a zstd frame that does not tell their size: a magic number, a window, a raw block."""
    raw = numcodecs.Zstd().decode(data)
    head = (len(raw) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd" + bytes([0x00, 0x40]) + head + raw


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[:-3],
    "longer": lambda data: data + b"\0",
    "twice": lambda data: data + data,
    "magic": _flip(0, 0xFF),
    "type": _flip(3, 0x04),
    "size": _flip(5, 0x10),
    "block": _flip(9, 0x40),
    "stored": _flip(13, 0x01),
    "huge": lambda data: data[:4] + b"\xff\xff\xff\x7f" + data[8:],
    "body": _flip(40, 0x55),
    "none": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("text", ["blosc:zstd:3:shuffle", "zstd:1"])
@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damage_is_told_in_the_same_words(
    text: str, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stored(tmp_path, text)
    chunk = made / "c" / "1" / "0" / "2"
    chunk.write_bytes(DAMAGE[damage](chunk.read_bytes()))
    answers = []
    for known in (native.decoder, lambda _: None):
        monkeypatch.setattr(encoded.native, "decoder", known)
        try:
            reblock.repartition(made, tmp_path / "b.npy", overwrite=True)
            answers.append(np.load(tmp_path / "b.npy").tobytes().hex())
        except reblock.CorruptError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
    assert str(chunk) in answers[0] or damage in ("body", "type")


def test_a_frame_that_does_not_tell_its_size_is_read(compiled: bool, tmp_path: Path) -> None:
    made = stored(tmp_path, "zstd:1")
    for chunk in (made / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(_unsized(chunk.read_bytes()))
    reblock.repartition(made, tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), field())


def test_chunks_that_are_not_stored_are_counted(compiled: bool, tmp_path: Path) -> None:
    made = stored(tmp_path, "zstd:1")
    chunks = sorted(path for path in (made / "c").rglob("*") if path.is_file())
    for chunk in random.Random(1).sample(chunks, 3):
        chunk.unlink()
    report = reblock.repartition(made, tmp_path / "b.npy")
    assert report.missing_chunks == 3
    assert np.array_equal(np.load(tmp_path / "b.npy"), reblock.open(made)[...])
    with pytest.raises(reblock.CorruptError, match="missing"):
        reblock.repartition(made, tmp_path / "c.npy", on_missing="error")


def test_links_are_followed_inside_and_refused_outside(compiled: bool, tmp_path: Path) -> None:
    made = stored(tmp_path, "blosc:lz4:1:shuffle")
    chunk = made / "c" / "1" / "0" / "2"
    chunk.rename(made / "elsewhere")
    chunk.symlink_to(made / "elsewhere")
    reblock.repartition(made, tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), field())
    (made / "elsewhere").rename(tmp_path / "outside")
    chunk.unlink()
    chunk.symlink_to(tmp_path / "outside")
    with pytest.raises(reblock.ReblockError, match=", outside "):
        reblock.repartition(made, tmp_path / "c.npy")
