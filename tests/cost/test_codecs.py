"""Codecs are priced by their level; a device file may say it better."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

import reblock
from reblock.cost import PRESETS
from reblock.cost.codecs import codec_rate
from reblock.engine import native

RATES = PRESETS["nvme"].encode_bytes_per_second


def encoding(codec: str, **more: float) -> float:
    return codec_rate({**RATES, **more}, codec, encoding=True)


@pytest.mark.parametrize(
    "slower_and_slower",
    [
        [f"gzip:{level}" for level in range(10)],
        [f"zlib:{level}" for level in range(10)],
        [f"zstd:{level}" for level in (-7, -5, *range(1, 23))],
        [f"blosc:zstd:{level}" for level in range(10)],
        [f"blosc:lz4hc:{level}" for level in range(10)],
        ["blosc:lz4:5:shuffle", "blosc:zstd:3:bitshuffle", "blosc:zlib:5:shuffle"],
        ["lz4:10", "lz4:1"],
        ["shuffle+gzip:4", "shuffle+gzip:5+crc32c", "shuffle+gzip:9+crc32c"],
        ['{"id": "zstd", "level": 1, "checksum": true}', '{"id": "zstd", "level": 19, "checksum": true}'],
    ],
    ids=lambda codecs: codecs[0],
)
def test_a_higher_level_takes_longer(slower_and_slower: list[str]) -> None:
    rates = [encoding(codec) for codec in slower_and_slower]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1]


def test_the_usual_level_has_the_rate_of_the_device() -> None:
    for codec, name in (("gzip:4", "gzip"), ("bz2:5", "bz2"), ("lzma", "lzma"), ("blosc:zstd:3:shuffle", "blosc")):
        assert encoding(codec) == RATES[name]
    assert encoding("zstd:3") == RATES["default"]
    assert encoding("unheard-of") == RATES["default"]
    assert encoding("") == inf
    assert codec_rate({}, "gzip:9", encoding=True) == inf


def test_a_device_may_name_a_level() -> None:
    assert encoding("gzip:9", **{"gzip:9": 7.0}) == 7.0
    assert encoding("blosc:lz4:5:shuffle", **{"blosc:lz4:5": 8.0}) == 8.0
    assert encoding("gzip:8", **{"gzip:9": 7.0}) == encoding("gzip:8")


def test_plans_differ_by_level() -> None:
    seconds = [
        reblock.plan(
            shape=(200, 200, 200), dtype="f4", source_chunks=(50, 50, 50), chunks=(100, 100, 25), codec=f"zstd:{level}"
        ).cost.seconds
        for level in (1, 9, 19)
    ]
    assert seconds[0] * 4 < seconds[1] < seconds[2] / 4


def test_the_missing_loop_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"shape": (512, 512, 64), "dtype": "u2", "source_chunks": (32, 32, 32), "chunks": (64, 16, 64)}
    device = replace(PRESETS["nvme"], read_bytes_per_second=1e12, write_bytes_per_second=1e12)
    before = reblock.plan(**asked, device=device).cost.seconds
    monkeypatch.setattr(native, "library", lambda: None)
    assert reblock.plan(**asked, device=device).cost.seconds > before
