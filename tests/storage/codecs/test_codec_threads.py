"""Codecs work in threads: while one encodes or decodes, others run."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from time import perf_counter

import numpy as np
import pytest

from reblock.model.codec import Codec
from reblock.storage.codecs.chain import Chain
from reblock.storage.hdf5.filters import decode, encode, pipeline_of

DATA = np.random.default_rng(0).standard_normal(1 << 20).astype("<f8").view(np.uint8)


def held(call: Callable[[], object]) -> float:
    """The longest time in which this thread stood still, as a share of a call that another one made."""
    spinning, span = threading.Event(), [0.0, 0.0]

    def work() -> None:
        spinning.wait()
        span[0] = perf_counter()
        call()
        span[1] = perf_counter()

    thread = threading.Thread(target=work)
    thread.start()
    longest, last = 0.0, perf_counter()
    spinning.set()
    while thread.is_alive():
        now = perf_counter()
        longest, last = max(longest, now - last), now
    return longest / (span[1] - span[0])


def runs_beside_others(call: Callable[[], object]) -> bool:
    """A call that keeps the interpreter's lock is a standstill every time; a busy machine only now and then."""
    return any(held(call) < 0.5 for _ in range(20))


def test_a_call_that_keeps_the_lock_is_noticed() -> None:
    # Long enough that a busy machine, which may keep a thread from starting, does not look like others that run.
    keeping, free = ctypes.PyDLL(None), ctypes.CDLL(None)
    assert not runs_beside_others(lambda: keeping.usleep(150_000))
    assert runs_beside_others(lambda: free.usleep(20_000))


@pytest.mark.parametrize(
    "text",
    ["gzip:4", "zlib:4", "zstd:3", "lz4", "blosc:lz4:5:shuffle", "blosc:zstd:1:bitshuffle", "shuffle+gzip:1"],
)
def test_zarr(text: str) -> None:
    chain, out = Chain(Codec.parse(text), np.dtype("<f8")), np.empty_like(DATA)
    stored = bytes(chain.encode(DATA))
    assert runs_beside_others(lambda: chain.encode(DATA))
    assert runs_beside_others(lambda: chain.decode(stored, out))


@pytest.mark.parametrize("text", ["gzip:4", "shuffle+gzip:4", "shuffle", "fletcher32", "shuffle+gzip:4+fletcher32"])
def test_hdf5(text: str) -> None:
    pipeline, out = pipeline_of(Codec.parse(text), 8), np.empty_like(DATA)
    stored = bytes(encode(DATA, pipeline))
    assert runs_beside_others(lambda: encode(DATA, pipeline))
    assert runs_beside_others(lambda: decode(stored, pipeline, 0, out))
