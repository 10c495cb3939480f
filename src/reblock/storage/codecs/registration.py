"""RegisteredCodec: everything that the rest of reblock may know about one codec, in one record.

A registration is used to call a codec, to count its memory and to check its metadata. Codecs without one are refused
by name: stored metadata must not choose code to run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import Any, Protocol

import numpy as np

from reblock.model.codec import Stage
from reblock.model.layout import Layout
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Scratch

#: Whether a setting may have a value.
Rule = Callable[[Any], bool]


class Role(Enum):
    """The effect of a codec on the bytes of a unit."""

    FILTER = "filter"
    """It works on elements, and stores them in another form of known size."""
    REORDER = "reorder"
    """It reorders bytes."""
    COMPRESSOR = "compressor"
    """It compresses bytes; only an upper bound of their number is known."""
    CHECKSUM = "checksum"
    """It adds a checksum."""
    TEXT = "text"
    """It writes bytes as text of known size."""


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """Bytes to decode, and what is known about the result."""

    data: Flat
    """The stored bytes."""
    out: Flat
    """Memory for the result; a codec may return another array."""
    exact: bool
    """Whether the result must fill that memory."""
    stage: Stage
    """The codec's settings."""
    dtype: np.dtype[Any]
    """Type of the array's elements."""
    codec: RegisteredCodec
    """The codec."""

    @property
    def numcodec(self) -> Any:
        """The codec's object in numcodecs."""
        return self.codec.numcodec(self.stage, self.dtype)

    def fits(self, size: int, *, more: int = 0) -> bool:
        """Whether a result of `size` bytes, stored with some more, is what was expected."""
        return size == self.out.size + more if self.exact else size <= self.out.size + more

    def check_declared(self, size: int) -> None:
        """Compare the size that a header declares; ValueError if it differs."""
        if not self.fits(size):
            raise ValueError(f"the header says {size:,} bytes, {self.out.size:,} expected")


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Bytes to encode, and the memory for that."""

    data: Flat
    """The bytes."""
    room: Flat | None
    """Memory for the result: that of the unit, which still holds the data or is already free."""
    scratch: Scratch
    """Other memory."""
    stage: Stage
    """The codec's settings."""
    dtype: np.dtype[Any]
    """Type of the array's elements."""
    codec: RegisteredCodec
    """The codec."""

    def by_numcodecs(self) -> Flat:
        """The result of numcodecs, in its own memory."""
        return np.frombuffer(self.codec.numcodec(self.stage, self.dtype).encode(self.data), np.uint8)


class Parts(Protocol):
    """How a codec divides every chunk of an array into parts that can be decoded separately."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Parts of a chunk, along the array's axes."""

    @property
    def table_bytes(self) -> int:
        """Bytes at the start of a stored chunk that contain the positions of its parts."""

    def layout(self, whole: Layout) -> Layout:
        """The layout of an array whose chunks are read in parts."""

    def decoder(self, whole: Decoder | None) -> Decoder | None:
        """The decoder of parts in C, given that of whole chunks."""

    def extents(self, path: str, data: Bytes, places: Sequence[Index]) -> list[Extent]:
        """Extents of the parts at these positions in a chunk, from the table at its start."""

    def decode(self, whole: Callable[[Bytes, Flat], None], data: Bytes, extent: Extent, out: Flat) -> None:
        """Decode a part into exactly `out.size` bytes; `whole` decodes chunks."""


class Divider(Protocol):
    """A codec that may divide chunks."""

    @property
    def head_bytes(self) -> int:
        """Bytes at the start of a stored chunk that state how it is divided."""

    def __call__(self, layout: Layout, chunks: Sequence[int], head: bytes) -> Parts | None:
        """How a chunk with these first bytes is divided; None if it is not, or if its parts are not boxes."""


class EncodingState(Protocol):
    """The codec's own memory in bytes while it encodes a unit."""

    def __call__(self, stage: Stage, unit_bytes: int, *, in_place: bool) -> int:
        """For a unit of this many bytes, encoded in its own memory or elsewhere."""


class InPlaceBytes(Protocol):
    """Scratch bytes that a codec needs to encode a unit in the unit's own memory."""

    def __call__(self, stage: Stage, unit_bytes: int, *, first: bool) -> int | None:
        """None if it cannot; `first` tells whether this codec gets the unit's elements unchanged."""


def _no_state(stage: Stage, unit_bytes: int, *, in_place: bool) -> int:  # noqa: ARG001 - the signature of all
    return 0


def _never(stage: Stage, unit_bytes: int, *, first: bool) -> int | None:  # noqa: ARG001 - the signature of all
    return None


def _no_bytes(stage: Stage, dtype: np.dtype[Any], unit_bytes: int) -> int:  # noqa: ARG001 - the signature of all
    return 0


@dataclass(frozen=True)
class RegisteredCodec:
    """One codec."""

    name: str
    """Its name in a Codec, and in numcodecs."""
    role: Role
    """What it does."""
    decode: Callable[[DecodeJob], Flat]
    """Decodes into the given memory, or returns another array."""
    encode: Callable[[EncodeJob], Flat]
    """Encodes, in the given memory if the codec can do that."""
    rules: Mapping[str, Rule] = field(default_factory=dict)
    """Its settings, with a check of the values of each."""
    needed: frozenset[str] = frozenset()
    """Required settings."""
    problem: Callable[[Stage], str] = lambda _: ""
    """Returns what is wrong with otherwise valid settings; "" = nothing."""
    size: Callable[[Stage, int, np.dtype[Any]], int] = lambda _, nbytes, __: nbytes
    """Bytes after encoding, or an upper bound for a compressor; ValueError if this many cannot be encoded."""
    max_bytes: int | None = None
    """The most bytes that it can encode; None = any number."""
    lossless: Callable[[Stage, np.dtype[Any]], bool] = lambda _, __: True
    """Whether decoding restores every bit of elements of a type, whatever their values."""
    # memory
    copies: bool = False
    """Whether its library returns the result in its own memory, from which it is copied once more."""
    decoding_state: Callable[[Stage, np.dtype[Any], int], int] = _no_bytes
    """Its own memory while a unit is decoded, held together with that of other stages."""
    decoding_work: Callable[[Stage, np.dtype[Any], int], int] = _no_bytes
    """Its own memory while a unit is decoded, freed before the next stage."""
    encoding_state: EncodingState = _no_state
    """Its own memory while a unit is encoded, held together with that of other stages."""
    encoding_work: Callable[[Stage, np.dtype[Any], int], int] = _no_bytes
    """Its own memory while a unit is encoded, freed before the next stage."""
    in_place: InPlaceBytes = _never
    """Scratch bytes for encoding a unit in its own memory; None if that is not possible."""
    # C
    decoder: Callable[[], Decoder | None] = lambda: None
    """Its decoder in C, if the functions that it calls can be found."""
    divide: Divider | None = None
    """How it divides chunks into parts; None = it does not."""
    # numcodecs
    in_numcodecs: bool = True
    """Whether numcodecs has it, so that metadata may use numcodecs' name for it."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Our names for numcodecs' settings, if they differ."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Numcodecs' defaults for omitted settings."""
    idle: Mapping[str, Any] = field(default_factory=dict)
    """Settings that are omitted if they have these values."""
    typed: str = ""
    """The setting that follows from the array's type, and is omitted if it does."""
    normalize: Callable[[dict[str, Any], np.dtype[Any]], None] = lambda _, __: None
    """Converts numcodecs' settings to those of a Stage."""
    complete: Callable[[dict[str, Any], np.dtype[Any]], None] = lambda _, __: None
    """Converts the settings of a Stage to those of numcodecs."""
    prepare: Callable[[], None] = lambda: None
    """Sets up numcodecs before it is used."""

    def check(self, stage: Stage) -> None:
        """Raise ValueError for invalid settings."""
        settings = dict(stage.settings)
        for key, value in settings.items():
            if key not in self.rules:
                raise ValueError(f"codec {self.name} has no setting {key!r}")
            if not self.rules[key](value):
                raise ValueError(f"codec {self.name} cannot have {key} = {value!r}")
        if problem := self.problem(stage):
            raise ValueError(problem)
        if missing := self.needed - settings.keys():
            raise ValueError(f"codec {self.name} lacks {', '.join(sorted(missing))}")

    def config(self, stage: Stage, dtype: np.dtype[Any]) -> dict[str, Any]:
        """The numcodecs configuration of a stage."""
        back = {ours: theirs for theirs, ours in self.renamed.items()}
        settings = {back.get(key, key): value for key, value in stage.settings}
        self.complete(settings, dtype)
        return {"id": self.name, **settings}

    def numcodec(self, stage: Stage, dtype: np.dtype[Any]) -> Any:
        """The numcodecs object of a stage; chains need the same one for every chunk."""
        made = _MADE.get((id(stage), dtype.itemsize))
        if made is None or made[0] is not stage:
            if len(_MADE) >= _MAX_MADE:
                _MADE.clear()
            self.prepare()
            made = stage, _make(json.dumps(self.config(stage, dtype), sort_keys=True))
            _MADE[id(stage), dtype.itemsize] = made
        return made[1]


#: Objects by the id of their stage and the size of an element; the stage is kept so that its id stays unique.
_MADE: dict[tuple[int, int], tuple[Stage, Any]] = {}
_MAX_MADE = 256


@lru_cache(maxsize=_MAX_MADE)
def _make(text: str) -> Any:
    import numcodecs

    return numcodecs.get_codec(json.loads(text))


# ---------------------------------------------------------------- rules
def integer(low: int, high: int) -> Rule:
    """Integers between two others, inclusive."""
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def number(value: Any) -> bool:
    """Any finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def one_of(*values: Any) -> Rule:
    """Certain values, of their own types."""
    return lambda value: any(value == v and type(value) is type(v) for v in values)


def bound(_: Stage, nbytes: int, __: np.dtype[Any]) -> int:
    """The most bytes that a compressor makes: none makes more from random bytes."""
    return nbytes + nbytes // 2 + 4096
