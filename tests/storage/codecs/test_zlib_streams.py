"""zlib and gzip streams: read by everyone, no larger than zlib's, nothing believed."""

from __future__ import annotations

import gzip
import subprocess
import sys
import textwrap
import zlib
from typing import Any

import numpy as np
import pytest

from reblock.storage.codecs import zlib_streams
from reblock.storage.codecs.zlib_streams import Container, compress, decompress, most_bytes, noise_bytes
from reblock.testing.arrays import Array, same_bits

PIECE = 65528
RNG = np.random.default_rng(7)
CONTAINERS = pytest.mark.parametrize("container", list(Container), ids=lambda c: c.name)


@pytest.fixture(params=["libdeflate", "its module", "zlib"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the fast library, as if its module exported nothing, and as if it were not installed."""
    if request.param == "zlib":
        monkeypatch.setattr(zlib_streams, "_library", lambda: None)
        monkeypatch.setattr(zlib_streams, "_public", lambda: zlib)
    if request.param == "its module":
        monkeypatch.setattr(zlib_streams, "_library", lambda: None)
    return str(request.param)


def noise(size: int) -> Array:
    return RNG.integers(0, 256, size, np.uint8)


def planes(array: Array) -> Array:
    """The bytes of an array, shuffled."""
    return np.ascontiguousarray(array.reshape(-1).view(np.uint8).reshape(array.size, -1).T).reshape(-1)


def smooth(noisy: float) -> Array:
    x, y = np.linspace(0, 9, 512, dtype="f4"), np.linspace(0, 7, 256, dtype="f4")
    return (np.sin(x) + np.cos(y)[:, None] + noisy * RNG.standard_normal((256, 512))).astype("f4")


def by_stdlib(data: Any, container: Container) -> bytes:
    return zlib.decompress(data) if container is Container.ZLIB else gzip.decompress(data)


CASES: dict[str, Array] = {
    "nothing": np.empty(0, np.uint8),
    "one": noise(1),
    "a piece but one": noise(PIECE - 1),
    "a piece": noise(PIECE),
    "a piece and one": noise(PIECE + 1),
    "three pieces": noise(3 * PIECE),
    "noise and zeros": np.concatenate([noise(2 * PIECE + 99), np.zeros(70_000, np.uint8)]),
    "zeros and noise": np.concatenate([np.zeros(70_000, np.uint8), noise(2 * PIECE)]),
    "shuffled": planes(smooth(1e-3)),
    "ramp": np.arange(1 << 16, dtype="<i4").view(np.uint8),
}


# ---------------------------------------------------------------- encoding
@CONTAINERS
@pytest.mark.parametrize("name", CASES)
def test_the_standard_library_reads_it(library: str, name: str, container: Container) -> None:
    data = CASES[name]
    for level in (-1, 0, 1, 4, 6, 9):
        stored = compress(data, level, container)
        assert by_stdlib(stored, container) == data.tobytes()
        assert len(stored) <= data.size + 5 * (data.size // 4000 + 1) + 32
        assert bytes(compress(data, level, container)) == bytes(stored)


@CONTAINERS
@pytest.mark.parametrize("name", [name for name, data in CASES.items() if data.size])
def test_the_fast_decoder_reads_both(name: str, container: Container) -> None:
    data = CASES[name]
    for stored in (bytes(compress(data, 4, container)), zlib.compress(data, 4, container.window)):
        back = np.zeros_like(data)
        assert decompress(np.frombuffer(stored, np.uint8), back, container)
        assert same_bits(back, data)


SIZES: dict[str, Array] = {
    "ramp": np.arange(1 << 17, dtype="<i4").view(np.uint8),
    "shuffled ramp": planes(np.arange(1 << 17, dtype="<i4")),
    "steps": planes((np.arange(1 << 17) // 3).astype("f4")),
    "smooth": planes(smooth(0)),
    "hardly noisy": planes(smooth(1e-4)),
    "noisy": planes(smooth(1e-2)),
    "noisy, not shuffled": smooth(1e-2).view(np.uint8).reshape(-1),
    "rounded": planes(np.round(smooth(1e-2), 2)),
    "integers": planes((1000 * smooth(5e-2) + 4000).astype("<i2")),
    "integers that wrap": (1000 * smooth(1e-3) + 3000).astype("u1").reshape(-1),
    "counts": planes(RNG.poisson(30, 1 << 17).astype("<i4")),
    "sparse": planes(np.where(RNG.random(1 << 17) < 0.02, RNG.standard_normal(1 << 17), 0).astype("f4")),
    "repeated": np.tile(noise(20_000), 30),
    "constant": np.full(1 << 19, 7, np.uint8),
    "noise": noise(1 << 19),
}


@pytest.mark.parametrize("level", [4, 6, 9])
@pytest.mark.parametrize("name", SIZES)
def test_hardly_larger_than_zlib(name: str, level: int) -> None:
    stored = compress(SIZES[name], level, Container.ZLIB)
    assert len(stored) <= 1.05 * len(zlib.compress(SIZES[name], level)) + 64


@pytest.mark.parametrize("name", SIZES)
def test_storing_noise_costs_next_to_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = len(compress(SIZES[name], 4, Container.ZLIB))
    monkeypatch.setattr(zlib_streams, "noise_bytes", lambda _: 0)
    assert quick <= 1.01 * len(compress(SIZES[name], 4, Container.ZLIB))


def test_what_is_noise() -> None:
    assert noise_bytes(noise(PIECE - 1)) == 0
    assert noise_bytes(noise(3 * PIECE + 1000)) == 3 * PIECE
    assert noise_bytes(CASES["noise and zeros"]) == 2 * PIECE
    # The lower half of every float here is noise, and comes first.
    assert noise_bytes(SIZES["noisy"]) == SIZES["noisy"].size // 2 // PIECE * PIECE
    for name in ("ramp", "shuffled ramp", "repeated", "constant", "integers that wrap", "counts", "sparse"):
        assert noise_bytes(SIZES[name]) == 0


@CONTAINERS
@pytest.mark.parametrize("name", [name for name, data in CASES.items() if data.size])
def test_a_stream_goes_to_the_room_for_it(library: str, name: str, container: Container) -> None:
    data = CASES[name]
    room = np.empty(most_bytes(data.size), np.uint8)
    stored = compress(data, 4, container, room)
    assert stored.ctypes.data == room.ctypes.data
    assert by_stdlib(stored, container) == data.tobytes()
    elsewhere = compress(data, 4, container, room[:-1])
    assert same_bits(elsewhere, stored)
    assert not np.may_share_memory(elsewhere, room)
    own = room.copy()
    own[: data.size] = data
    over = compress(own[: data.size], 4, container, own)
    assert same_bits(over, stored)
    assert over.ctypes.data == own.ctypes.data


# ---------------------------------------------------------------- decoding
@CONTAINERS
def test_only_what_is_sure_is_decoded(container: Container) -> None:
    data = CASES["shuffled"]
    good = compress(data, 1, container)
    assert decompress(good, np.empty_like(data), container)
    for size in (0, 1, data.size - 1, data.size + 1):
        assert not decompress(good, np.empty(size, np.uint8), container)
    wrong = [good[:-1], good[1:], good[:9], good[:0], np.append(good, [0, 0]), np.append(good, good[:50])]
    for at in (0, good.size // 2, good.size - 1):
        changed = good.copy()
        changed[at] ^= 0x55
        wrong.append(changed)
    for stored in wrong:
        assert not decompress(stored.astype(np.uint8), np.empty_like(data), container)


def test_bombs_stay_small() -> None:
    stored = np.frombuffer(zlib.compress(bytes(1 << 26), 9), np.uint8)
    out = np.full(2000, 7, np.uint8)
    assert not decompress(stored, out[:1000], Container.ZLIB)
    assert (out[1000:] == 7).all()


def test_without_the_library(library: str) -> None:
    stored = np.frombuffer(zlib.compress(b"abc" * 999), np.uint8)
    assert decompress(stored, np.empty(2997, np.uint8), Container.ZLIB) == (library == "libdeflate")


SCRIPT = """
    import sys
    sys.modules["deflate"] = sys.modules["deflate._deflate"] = None
    import numpy as np
    from reblock.model.codec import Codec
    from reblock.storage.hdf5.filters import decode, encode, pipeline_of
    from reblock.storage.codecs.chain import Chain
    data = (np.arange(90_000, dtype="<i4") // 3).view("u1")
    for text in ("gzip:4", "zlib:4", "shuffle+gzip:4"):
        chain, out = Chain(Codec.parse(text), np.dtype("<i4")), np.zeros_like(data)
        chain.decode(chain.encode(data), out)
        assert (out == data).all()
    pipeline, out = pipeline_of(Codec.parse("shuffle+gzip:4+fletcher32"), 4), np.zeros_like(data)
    decode(encode(data, pipeline), pipeline, 0, out)
    assert (out == data).all()
    print("done")
"""


def test_an_installation_without_the_library() -> None:
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "done", run.stderr[-2000:]
