"""Speeds of codecs by level: factors that turn the rate of a codec at its usual level into that at another level.

A device states the rate of a codec at its usual level. The factors for other levels were measured on float32 fields of
smooth values with noise in their last digits (one core, numcodecs 0.16; gzip by libdeflate, on five kinds of data with
and without shuffle). Data differ more than levels do: for `--device auto` codecs are tried or measured. Levels between
measured ones are interpolated. If a device names the settings themselves, such as `gzip:9` or `blosc:lz4:5`, or a whole
codec such as `shuffle+gzip:9`, that rate is used.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from math import exp, inf, log

#: Encoding speed by level, relative to the usual level.
_ENCODING: dict[str, dict[int, float]] = {
    "gzip": {0: 60.0, 1: 1.0, 4: 1.0, 5: 0.78, 6: 0.67, 7: 0.51, 8: 0.46, 9: 0.46},
    "zstd": {-7: 3.4, -5: 3.1, 1: 2.2, 2: 1.6, 3: 1.0, 4: 0.75, 5: 0.7, 6: 0.54, 7: 0.37, 8: 0.32, 9: 0.29, 10: 0.21,
             12: 0.12, 15: 0.047, 17: 0.036, 19: 0.024, 22: 0.023},
    "bz2": {1: 1.0, 9: 1.0},
    "lzma": {0: 7.0, 1: 5.1, 3: 2.0, 6: 1.0, 9: 1.0},
    "lz4": {1: 1.0, 10: 1.6, 100: 6.9},
    "blosc:zstd": {0: 30.0, 1: 2.5, 3: 1.0, 5: 0.49, 9: 0.044},
    "blosc:lz4": {0: 30.0, 1: 6.8, 5: 6.4, 9: 4.9},
    "blosc:lz4hc": {0: 30.0, 1: 2.4, 5: 0.57, 9: 0.54},
    "blosc:zlib": {0: 30.0, 1: 0.9, 5: 0.26, 9: 0.048},
    "blosc:blosclz": {0: 30.0, 1: 20.0, 5: 3.2, 9: 3.0},
    "blosc:snappy": {0: 30.0, 1: 4.0, 9: 4.0},
}  # fmt: skip

#: Decoding speed by level, relative to the usual level.
_DECODING: dict[str, dict[int, float]] = {
    "zstd": {-5: 1.6, 1: 1.15, 3: 1.0, 15: 1.0, 17: 0.7, 19: 0.4, 22: 0.4},
    "bz2": {1: 1.2, 5: 1.0, 9: 0.67},
    "lz4": {1: 1.0, 10: 1.0, 100: 3.0},
    "blosc:zstd": {0: 6.0, 1: 1.05, 3: 1.0, 5: 1.0, 9: 0.6},
    "blosc:lz4": {0: 6.0, 1: 3.9, 9: 4.5},
    "blosc:lz4hc": {0: 6.0, 1: 4.2, 9: 4.4},
    "blosc:zlib": {0: 6.0, 1: 0.43, 9: 0.55},
    "blosc:blosclz": {0: 6.0, 1: 6.0, 5: 1.8, 9: 1.8},
    "blosc:snappy": {0: 6.0, 1: 2.0, 9: 2.0},
}

#: Default levels.
_USUAL = {"gzip": 4, "zstd": 3, "bz2": 5, "lzma": 6, "lz4": 1}
#: Other names of codecs.
_SAME = {"zlib": "gzip"}


def codec_rate(rates: dict[str, float], codec: str, *, encoding: bool) -> float:
    """Decoded bytes per second of a codec's slowest stage that has a rate; infinite without a codec."""
    if not codec:
        return inf
    if codec in rates:
        return rates[codec]
    found = [rate for stage in _stages(codec) if (rate := _stage_rate(rates, stage, encoding=encoding)) is not None]
    return min(found) if found else rates.get("default", inf)


def _stages(codec: str) -> list[str]:
    """Stages in short text; those in JSON as far as possible."""
    if codec[0] not in "[{":
        return codec.split("+")
    configs = json.loads(codec)
    places = [(one, ("id", "cname", "level")) for one in (configs if isinstance(configs, list) else [configs])]
    return [":".join(str(one[key]) for key in keys if key in one) for one, keys in places]


def _stage_rate(rates: dict[str, float], stage: str, *, encoding: bool) -> float | None:
    """The rate of a stage as the device states it, or that of its codec times the factor of its level."""
    parts = stage.split(":")
    for end in range(len(parts), 1, -1):
        if (exact := ":".join(parts[:end])) in rates:
            return rates[exact]
    name = parts[0]
    key = _SAME.get(name, name)
    if key == "blosc":
        key, parts = ":".join(["blosc", *(parts[1:2] or ["zstd"])]), parts[1:]
    factors = (_ENCODING if encoding else _DECODING).get(key)
    if name not in rates and (key not in _ENCODING or "default" not in rates):
        return None
    rate = rates.get(name, rates.get("default", inf))
    return rate if factors is None else rate * _between(factors, _level(parts, key))


def _level(parts: list[str], key: str) -> int:
    try:
        return int(parts[1])
    except (IndexError, ValueError):
        return _USUAL.get(key, 3)


def _between(factors: dict[int, float], level: int) -> float:
    """The factor of a level, interpolated between the nearest known ones."""
    levels = sorted(factors)
    place = bisect_left(levels, level)
    if place == len(levels) or (place == 0 and level < levels[0]):
        return factors[levels[min(place, len(levels) - 1)]]
    if levels[place] == level:
        return factors[level]
    low, high = levels[place - 1], levels[place]
    part = (level - low) / (high - low)
    return exp(log(factors[low]) * (1 - part) + log(factors[high]) * part)
