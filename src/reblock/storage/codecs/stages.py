"""Codec stages in zarr's words: numcodecs configurations and v3 codec objects, both ways, by an allow-list.

Whatever is not listed here is refused by name: stored metadata must not choose code to run (pickle, json2, vlen).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from math import isfinite
from typing import Any

import numpy as np

from reblock.model.codec import ZSTD_HIGHEST, Stage

_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_CNAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_TYPE = re.compile(
    r"[<>|=]?(?:b1|[iu][1248]|f[248]|c8|c16|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128))"
)


def _dtype(value: Any) -> np.dtype[Any]:
    if not isinstance(value, str) or not _TYPE.fullmatch(value):
        raise ValueError(f"{value!r} is not a numeric type")
    return np.dtype(value)


# ---------------------------------------------------------------- sizes
def _recoded(name: str, other: str) -> Callable[[Stage, int], int]:
    """Size after a filter that stores each element in another type."""

    def size(stage: Stage, nbytes: int) -> int:
        decoded = _dtype(stage.get(name))
        encoded = _dtype(stage.get(other) or stage.get(name))
        if nbytes % decoded.itemsize:
            raise ValueError(f"{stage.name} of {decoded} does not divide a chunk of {nbytes:,} bytes")
        return nbytes // decoded.itemsize * encoded.itemsize

    return size


#: Filters work on elements; by name, the size after encoding.
FILTERS: dict[str, Callable[[Stage, int], int]] = {
    "delta": _recoded("dtype", "astype"),
    "fixedscaleoffset": _recoded("dtype", "astype"),
    "quantize": _recoded("dtype", "astype"),
    "astype": _recoded("decode_dtype", "encode_dtype"),
    "bitround": lambda _, nbytes: nbytes,
    "packbits": lambda _, nbytes: 1 + (nbytes + 7) // 8,
}
#: Four bytes more.
CHECKSUMS = frozenset({"crc32c", "crc32", "adler32", "jenkins_lookup3", "fletcher32"})


# ---------------------------------------------------------------- settings
def _integer(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: any(value == v and type(value) is type(v) for v in values)


def _type(value: Any) -> bool:
    return isinstance(value, str) and _TYPE.fullmatch(value) is not None


def _lzma_filters(value: Any) -> bool:
    small = _integer(0, 1 << 27)
    return isinstance(value, list) and all(
        isinstance(f, dict)
        and all(isinstance(k, str) and small(v) for k, v in f.items() if k != "id")
        and _integer(0, 1 << 63)(f.get("id"))
        for f in value
    )


_LOCATION = {"location": _one_of("start", "end")}
_RULES: dict[str, dict[str, Callable[[Any], bool]]] = {
    "blosc": {
        "cname": _one_of(*_CNAMES),
        "level": _integer(0, 9),
        "shuffle": _one_of(*_SHUFFLES),
        "blocksize": _integer(0, 2**31 - 1),
        "typesize": _integer(1, 255),
    },
    "zstd": {"level": _integer(-(2**17), ZSTD_HIGHEST), "checksum": lambda value: value is True},
    "gzip": {"level": _integer(-1, 9)},
    "zlib": {"level": _integer(-1, 9)},
    "lz4": {"level": _integer(-(2**31), 2**31 - 1)},
    "bz2": {"level": _integer(1, 9)},
    "lzma": {
        "format": _one_of(1, 2, 3),
        "check": _integer(-1, 15),
        "preset": _integer(0, 2**32 - 1),
        "filters": _lzma_filters,
    },
    "shuffle": {"elementsize": _integer(1, 1 << 16)},
    "crc32c": _LOCATION,
    "crc32": _LOCATION,
    "adler32": _LOCATION,
    "jenkins_lookup3": {"initval": _integer(0, 2**32 - 1)},
    "fletcher32": {},
    "delta": {"dtype": _type, "astype": _type},
    "fixedscaleoffset": {
        "offset": _number,
        "scale": lambda value: _number(value) and value != 0,
        "dtype": _type,
        "astype": _type,
    },
    "quantize": {"digits": _integer(-300, 300), "dtype": _type, "astype": _type},
    "astype": {"encode_dtype": _type, "decode_dtype": _type},
    "bitround": {"keepbits": _integer(0, 52)},
    "packbits": {},
    "base64": {},
}
#: Settings without which a stage means nothing.
_NEEDED = {
    "delta": {"dtype"},
    "fixedscaleoffset": {"offset", "scale", "dtype"},
    "quantize": {"digits", "dtype"},
    "astype": {"encode_dtype", "decode_dtype"},
    "bitround": {"keepbits"},
}
#: Our names of numcodecs' settings, where they differ.
_NAMES = {"blosc": {"clevel": "level"}, "lz4": {"acceleration": "level"}}
#: What numcodecs assumes where a setting is left out.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "blosc": {"cname": "lz4", "level": 5, "shuffle": 1},
    "zstd": {"level": 1},
    "gzip": {"level": 1},
    "zlib": {"level": 1},
    "bz2": {"level": 1},
    "lz4": {"level": 1},
    "shuffle": {"elementsize": 4},
}
#: Settings that say nothing.
_IDLE: dict[str, dict[str, Any]] = {
    "blosc": {"blocksize": 0},
    "zstd": {"checksum": False},
    "lzma": {"format": 1, "check": -1, "preset": None, "filters": None},
    "crc32c": {"location": "end"},
    "crc32": {"location": "start"},
    "adler32": {"location": "start"},
    "jenkins_lookup3": {"initval": 0, "prefix": None},
}


def check(stage: Stage) -> None:
    """ValueError for a stage that is not on the list, or has settings that make no sense."""
    rules = _RULES.get(stage.name)
    if rules is None:
        raise ValueError(f"codec {stage.name!r} is not supported")
    settings = dict(stage.settings)
    for key, value in settings.items():
        if key not in rules:
            raise ValueError(f"codec {stage.name} has no setting {key!r}")
        if not rules[key](value):
            raise ValueError(f"codec {stage.name} cannot have {key} = {value!r}")
    if stage.name == "blosc" and settings.get("cname") == "snappy" and not _has_snappy():
        raise ValueError(
            "codec blosc with snappy needs a Blosc that was built with it, and numcodecs' has not; other compressors "
            f"are {', '.join(name for name in _CNAMES if name != 'snappy')}"
        )
    missing = _NEEDED.get(stage.name, set()) - settings.keys()
    if missing:
        raise ValueError(f"codec {stage.name} lacks {', '.join(sorted(missing))}")


@cache
def _has_snappy() -> bool:
    """Whether numcodecs' Blosc has Snappy: those on PyPI have not, builds of distributions may."""
    from numcodecs import blosc

    return "snappy" in blosc.list_compressors()


def stage_of(config: Any, dtype: np.dtype[Any]) -> Stage:
    """A stage from a numcodecs configuration; ValueError where there is none."""
    if not isinstance(config, Mapping) or not isinstance(config.get("id"), str):
        raise ValueError(f"a codec is an object with an id, not {config!r:.80}")  # noqa: TRY004 - of the file
    name: str = config["id"]
    renamed: Mapping[str, str] = _NAMES.get(name, {})
    given = {renamed.get(key, key): value for key, value in config.items() if key != "id"}
    settings: dict[str, Any] = {**_DEFAULTS.get(name, {}), **given}
    for key, value in _IDLE.get(name, {}).items():
        if key in settings and settings[key] == value:
            del settings[key]
    if name == "zstd" and isinstance(settings["level"], int):
        settings["level"] = min(settings["level"], ZSTD_HIGHEST)
    if name == "blosc":
        settings["shuffle"] = _shuffle_name(settings["shuffle"], dtype)
    _drop(name, settings, dtype)
    stage = Stage(name, tuple(sorted(settings.items())))
    check(stage)
    return stage


def _shuffle_name(value: Any, dtype: np.dtype[Any]) -> Any:
    """Blosc's shuffle by name; -1 is left to the type."""
    if value == -1:
        return "bitshuffle" if dtype.itemsize == 1 else "shuffle"
    return _SHUFFLES[value] if _integer(0, 2)(value) else value


def _drop(name: str, settings: dict[str, Any], dtype: np.dtype[Any]) -> None:
    """Leave out what follows from the array's own type."""
    own = {"blosc": "typesize", "shuffle": "elementsize"}.get(name)
    if own is not None and settings.get(own, dtype.itemsize) in (dtype.itemsize, None):
        settings.pop(own, None)
    if settings.get("astype", "") is None:
        del settings["astype"]


def config(stage: Stage, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The numcodecs configuration of a stage."""
    back = {ours: theirs for theirs, ours in _NAMES.get(stage.name, {}).items()}
    settings = {back.get(key, key): value for key, value in stage.settings}
    if stage.name == "blosc":
        settings = {"blocksize": 0, **settings, "shuffle": _SHUFFLES.index(settings["shuffle"])}
        settings.setdefault("typesize", min(dtype.itemsize, 255))
    if stage.name == "shuffle":
        settings.setdefault("elementsize", dtype.itemsize)
    return {"id": stage.name, **settings}


# ---------------------------------------------------------------- zarr v3
#: Codecs of the v3 specification, with the settings that it gives them.
V3 = {
    "blosc": {"cname", "level", "shuffle", "blocksize", "typesize"},
    "gzip": {"level"},
    "zstd": {"level", "checksum"},
    "crc32c": set[str](),
}
#: Of numcodecs' settings the only one that the specification does not allow.
_DEFAULT = ("gzip", -1)


def specified(stage: Stage) -> bool:
    """Whether the v3 specification has a stage, as it is set."""
    known = V3.get(stage.name)
    return known is not None and known >= dict(stage.settings).keys() and (stage.name, stage.get("level")) != _DEFAULT


def check_v3(stage: Stage, dtype: np.dtype[Any]) -> None:
    """ValueError for a stage that zarr-python does not read in v3."""
    if stage.name == "base64":
        raise ValueError("codec base64 is of zarr v2 only")
    if stage.name == "quantize" and {stage.get("dtype"), stage.get("astype", dtype.str)} != {dtype.str}:
        raise ValueError(f"in zarr v3 codec quantize must have the array's own type, {dtype.str}, for dtype and astype")


def stage_of_v3(name: str, settings: Mapping[str, Any], dtype: np.dtype[Any]) -> Stage:
    """A stage from the name and configuration of a v3 codec."""
    if name.startswith("numcodecs."):
        return stage_of({**settings, "id": name.removeprefix("numcodecs.")}, dtype)
    if name not in V3:
        raise ValueError(f"codec {name!r} is not supported")
    if name == "blosc":
        settings = {"shuffle": -1, "cname": "zstd", **settings}
    return stage_of({**settings, "id": name}, dtype)


def config_v3(stage: Stage, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The v3 codec object of a stage; those that are not in the specification carry the prefix of numcodecs."""
    settings = config(stage, dtype)
    del settings["id"]
    if not specified(stage):
        return {"name": f"numcodecs.{stage.name}", "configuration": settings}
    if stage.name == "blosc":
        settings["shuffle"] = stage.get("shuffle")
    if stage.name == "zstd":
        settings.setdefault("checksum", False)
    return {"name": stage.name, "configuration": settings} if settings else {"name": stage.name}


def lossless(stage: Stage, dtype: np.dtype[Any]) -> bool:
    """Whether decoding gives back every bit of elements of a type, whatever the values were."""
    if stage.name == "delta":
        decoded, encoded = _dtype(stage.get("dtype")), _dtype(stage.get("astype") or stage.get("dtype"))
        return decoded.kind in "iu" and encoded.kind in "iu" and encoded.itemsize >= decoded.itemsize
    if stage.name == "packbits":
        return dtype.kind == "b"
    return stage.name not in FILTERS


# ---------------------------------------------------------------- numcodecs
#: Codecs by stage, which is kept so that its id stays its own, and size of an element.
_MADE: dict[tuple[int, int], tuple[Stage, Any]] = {}
_MANY_MADE = 256


def numcodec(stage: Stage, dtype: np.dtype[Any]) -> Any:
    """The codec of a stage; one stage is asked for once per chunk."""
    made = _MADE.get((id(stage), dtype.itemsize))
    if made is None or made[0] is not stage:
        if len(_MADE) >= _MANY_MADE:
            _MADE.clear()
        made = stage, _make(json.dumps(config(stage, dtype), sort_keys=True))
        _MADE[id(stage), dtype.itemsize] = made
    return made[1]


@lru_cache(maxsize=_MANY_MADE)
def _make(text: str) -> Any:
    import numcodecs
    import numcodecs.blosc

    # Its own threads share one lock; the engine's threads do not. zarr-python sets the same.
    numcodecs.blosc.use_threads = False
    return numcodecs.get_codec(json.loads(text))
