"""Codec: how units are encoded, in a notation that all formats share.

A codec is a chain of stages in the order of encoding, written `shuffle+gzip:4`, `zstd:3`, `blosc:zstd:5:shuffle`,
`none`. A stage is a name and its settings. Settings with a place in the text are listed below; any other name is a
numcodecs codec, whose settings are kept as they are. Adapters translate stages to their own terms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reblock.errors import UsageError

#: Settings of the short text form, in their order, with their defaults.
_PLACES: dict[str, tuple[tuple[str, Any], ...]] = {
    "gzip": (("level", 4),),
    "zlib": (("level", 4),),
    "zstd": (("level", 3),),
    "lz4": (("level", 1),),
    "bz2": (("level", 5),),
    "lzma": (),
    "lzf": (),
    "lzw": (),
    "rle": (),
    "predictor": (),
    "shuffle": (),
    "crc32c": (),
    "fletcher32": (),
    "blosc": (("cname", "zstd"), ("level", 3), ("shuffle", "shuffle")),
}
_LEVELS = {"gzip": (0, 9), "zlib": (0, 9), "zstd": (-7, 22), "lz4": (1, 65537), "bz2": (1, 9), "blosc": (0, 9)}
_BLOSC_NAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
#: The highest level of zstd; higher ones are treated as this one, as zstd does.
ZSTD_HIGHEST = 22
_BLOSC_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a codec."""

    name: str
    """Name shared by all formats, such as gzip or blosc, or a numcodecs id."""
    settings: tuple[tuple[str, Any], ...] = ()
    """Its settings, sorted by name, JSON values only."""

    @classmethod
    def of(cls, name: str, /, **settings: Any) -> Stage:
        """A stage from keyword settings; omitted settings have their defaults."""
        given = {**dict(_PLACES.get(name, ())), **settings}
        if name == "zstd" and isinstance(given["level"], int):
            given["level"] = min(given["level"], ZSTD_HIGHEST)
        return cls(name, tuple(sorted(given.items())))

    def get(self, key: str, default: Any = None) -> Any:
        """One setting."""
        return dict(self.settings).get(key, default)

    @property
    def config(self) -> dict[str, Any]:
        """The stage as a numcodecs configuration."""
        return {"id": self.name, **dict(self.settings)}

    @property
    def short(self) -> str | None:
        """The stage as short text, or None if that cannot express all settings."""
        places = _PLACES.get(self.name)
        settings = dict(self.settings)
        if places is None or set(settings) != {key for key, _ in places}:
            return None
        return ":".join([self.name, *(str(settings[key]) for key, _ in places)])

    def __str__(self) -> str:
        return self.short or json.dumps(self.config)


@dataclass(frozen=True, slots=True)
class Codec:
    """A chain of stages, in the order of encoding; empty = raw bytes."""

    stages: tuple[Stage, ...] = ()
    """The stages; the first one is applied to the elements."""

    def __bool__(self) -> bool:
        return bool(self.stages)

    def __str__(self) -> str:
        short = [stage.short for stage in self.stages]
        if None in short and len(short) > 1:
            return json.dumps([stage.config for stage in self.stages])
        return "+".join(map(str, self.stages)) or "none"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.stages)

    @classmethod
    def parse(cls, text: str) -> Codec:
        """A codec from text such as `shuffle+gzip:4`, or from JSON (an object with `id`, or a list of them)."""
        text = text.strip()
        if text in ("none", "raw", ""):
            return cls()
        if text[0] in "[{":
            return cls._from_configs(text)
        return cls(tuple(_parse_stage(part, text) for part in text.split("+")))

    @classmethod
    def _from_configs(cls, text: str) -> Codec:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise UsageError(f"codec is not valid JSON: {error}") from None
        configs = value if isinstance(value, list) else [value]
        if not all(isinstance(c, Mapping) and isinstance(c.get("id"), str) for c in configs):
            raise UsageError('a codec in JSON is an object with "id" and its settings, or a list of them')
        return cls(tuple(Stage.of(c["id"], **{k: v for k, v in c.items() if k != "id"}) for c in configs))


def _parse_stage(part: str, text: str) -> Stage:
    name, *values = part.strip().split(":")
    if name not in _PLACES:
        raise UsageError(f"unknown codec {name!r} in {text!r}: use none or one of {', '.join(sorted(_PLACES))}")
    places = _PLACES[name]
    if len(values) > len(places):
        wants = ":".join([name, *(key.upper() for key, _ in places)])
        raise UsageError(f"too many settings in {part!r}: the form is {wants}")
    settings: dict[str, Any] = {}
    for (key, default), value in zip(places, values, strict=False):
        settings[key] = _parse_setting(name, key, value, default)
    return Stage.of(name, **settings)


def _parse_setting(name: str, key: str, value: str, default: Any) -> Any:
    if isinstance(default, int):
        low, high = _LEVELS[name]
        try:
            level = int(value)
        except ValueError:
            level = low - 1
        if name == "zstd":
            level = min(level, ZSTD_HIGHEST)
        if not low <= level <= high:
            raise UsageError(f"{name} level must be an integer from {low} to {high}, not {value!r}")
        return level
    allowed = _BLOSC_NAMES if key == "cname" else _BLOSC_SHUFFLES
    if value not in allowed:
        raise UsageError(f"{name} {key} must be one of {', '.join(allowed)}, not {value!r}")
    return value
