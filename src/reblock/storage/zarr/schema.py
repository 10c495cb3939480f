"""Adapt a schema to zarr: what v2 and v3 can hold of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from reblock.errors import FormatError, UsageError, option
from reblock.geometry import Axis
from reblock.geometry.grid import Cut, chunk_text
from reblock.model.codec import Codec, Stage
from reblock.model.schema import Schema, element
from reblock.model.store import ChunkLimits
from reblock.storage.attributes import is_text
from reblock.storage.checks import MAX_BYTES, dtype_problem, show
from reblock.storage.codecs.chain import Chain, trial
from reblock.storage.codecs.registry import CODECS, check, find, is_filter
from reblock.storage.conventions import FILL_VALUE, fill_attribute, without_ties
from reblock.storage.typed_attributes import encode_attributes
from reblock.storage.zarr.codec_objects import V3, check_v3, is_specified
from reblock.storage.zarr.files import describe
from reblock.storage.zarr.meta import INDEX_BYTES, axes_v2
from reblock.storage.zarr.values import UNSTABLE_KINDS, extended, fill_bits_lost

#: The codec that is used if the source's cannot be kept.
USUAL = Codec.parse("blosc:zstd:3:shuffle")
#: The same for chunks that are too large for Blosc.
USUAL_LONG = Codec.parse("zstd:3")


class _Adapter:
    """Adapts one schema; what cannot be kept is an error if it was requested, otherwise a note."""

    def __init__(self, schema: Schema, asked: Collection[str], version: int) -> None:
        self.schema, self.asked, self.version = schema, asked, version
        self.notes = list(schema.notes)
        self.dtype = schema.dtype

    def give_up(self, field: str, problem: str, instead: str) -> None:
        """Report something that cannot be kept; `instead` says what is done instead."""
        if field in self.asked:
            raise UsageError(f"zarr v{self.version}: {problem}")
        self.notes.append(f"{problem}; {instead}")

    # ------------------------------------------------------------ fields
    def check_dtype(self) -> None:
        if problem := dtype_problem(self.dtype):
            raise UsageError(f"zarr v{self.version}: {problem}")
        if extended(self.dtype):
            raise UsageError(
                f"zarr holds at most float64 and complex128, not {self.dtype}; try {option('dtype', 'f8')}"
            )
        if self.dtype.kind in "mM" and np.datetime_data(self.dtype)[0] == "generic":
            raise UsageError(
                f"zarr has no dates or durations without a unit; try {option('dtype', self.dtype.str + '[s]')}"
            )
        if self.version == 3 and self.dtype.kind in UNSTABLE_KINDS:
            self.notes.append(
                f"zarr v3 has no stable specification of type {self.dtype.str}: zarr-python reads it, others may not "
                "(zarr v2 has one)"
            )
        if self.version == 3 and self.dtype.str[0] == ">":
            self.notes.append("byte order is kept in the chunks; zarr readers show little-endian with equal values")

    def chunks(self) -> tuple[int, ...]:
        if len(self.schema.chunks) != self.schema.ndim:
            text = chunk_text(self.schema.chunks)
            raise UsageError(f"chunks {text} have {len(self.schema.chunks)} axes, the array has {self.schema.ndim}")
        return tuple(map(self.chunk, self.schema.chunks, self.schema.shape))

    def chunk(self, cut: Cut, length: int) -> int:
        if isinstance(cut, int):
            if cut < min(length, 1):
                raise UsageError(f"a chunk length must be at least 1, not {cut}")
            return max(cut, 1)
        step = Axis.of(cut).step
        if step is None and cut:
            self.give_up(
                "chunks",
                f"chunks {chunk_text([cut])} are irregular, zarr has regular chunks only (blocks may be irregular)",
                f"{max(cut)} is used",
            )
        return step or max(cut, default=1)

    def shards(self, chunks: tuple[int, ...]) -> tuple[int, ...] | None:
        shards = self.schema.shards
        if shards is None:
            return None
        if self.version == 2:
            self.give_up("shards", f"shards {chunk_text(shards)} are not possible, only zarr v3 has them", "left out")
            return None
        if self.dtype.kind == "V":
            self.give_up("shards", f"elements of {self.dtype.str} in shards cannot be read by zarr-python", "left out")
            return None
        if len(shards) != len(chunks) or any(n < 1 for n in shards):
            raise UsageError(f"shards {chunk_text(shards)} must be {len(chunks)} lengths of at least 1")
        rounded = tuple(-(-s // c) * c for s, c in zip(shards, chunks, strict=True))
        if rounded != shards:
            problem = f"shards {chunk_text(shards)} are not multiples of the chunks {chunk_text(chunks)}"
            self.give_up("shards", f"{problem}; {chunk_text(rounded)} would be", f"{chunk_text(rounded)} are used")
        count = prod(s // c for s, c in zip(rounded, chunks, strict=True))
        if 16 * count > INDEX_BYTES:
            raise UsageError(f"{count:,} chunks per shard, the limit is {INDEX_BYTES // 16:,}; use larger chunks")
        return rounded

    def order(self) -> tuple[int, ...]:
        straight, order = tuple(range(self.schema.ndim)), self.schema.order
        if sorted(order) != list(straight):
            raise UsageError(f"an axis order is a permutation of {list(straight)}, not {list(order)}")
        if self.version == 3 or order in (straight, straight[::-1]):
            return order
        problem = f"axis order {list(order)} is not possible, zarr v2 has C and Fortran order (v3 has any)"
        self.give_up("order", problem, "C order is used")
        return straight

    def fill_value(self) -> Any:
        value, zero = self.schema.fill_value, np.zeros((), self.dtype.newbyteorder("="))[()]
        if value is None:
            # Zarr v2 can say so. With a fill value of zero, readers such as xarray would take zeros for missing.
            return None if self.version == 2 else zero
        if self.version == 2 and self.schema.axes is not None and "fill_value" not in self.asked:
            value = self.missing_value(value)
            if value is None:
                return None
        if not isinstance(value, np.generic) or value.dtype != self.dtype.newbyteorder("="):
            given, value = value, _cast(value, self.dtype)
            if value is None:
                self.give_up("fill_value", f"fill value {show(given)} is not of type {self.dtype}", "0 is used")
                return zero
        if self.dtype.kind == "U" and not is_text(str(value)):
            self.give_up("fill_value", f"fill value {show(str(value))} is not Unicode", "empty text is used")
            return zero
        if self.version == 2 and fill_bits_lost(value, self.dtype):
            self.give_up("fill_value", "zarr v2 cannot store the bits of this fill value", "a plain NaN is used")
            return _plain_nan(value)
        return value

    def missing_value(self, value: Any) -> Any:
        """The fill value of an array with named axes in zarr v2, where xarray takes such elements for missing."""
        given = self.schema.attributes.get(FILL_VALUE)
        missing = None if given is None else fill_attribute(given, self.dtype)
        if missing is not None and element(missing, self.dtype).tobytes() != element(value, self.dtype).tobytes():
            self.notes.append(f"fill value {value!s} became {missing!s}, as attribute {FILL_VALUE} says")
            return missing
        if missing is None and self.dtype.kind in "biufc" and not np.any(value):
            self.notes.append("fill value 0 is left out: in zarr v2, xarray would take zeros for missing")
            return None
        return value

    def attributes(self) -> dict[str, Any]:
        given, ties = without_ties(self.schema.attributes)
        encoded = encode_attributes(given, netcdf=self.schema.netcdf, version=self.version, dtype=self.dtype)
        self.notes += [*ties, *encoded.notes]
        return {name: given[name] for name in encoded.values}

    def axes(self, attributes: dict[str, Any]) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
        axes = self.schema.axes
        if axes is not None and len(axes) != self.schema.ndim:
            self.give_up("axes", f"{len(axes)} names for {self.schema.ndim} axes", "left out")
            axes = None
        if axes is not None and not all(map(is_text, axes)):
            self.give_up("axes", f"axis names {show(axes)} are not Unicode", "left out")
            axes = None
        if self.version == 2:
            found, rest = axes_v2(attributes, self.schema.ndim)
            return (axes if axes is not None else found), rest
        return (axes if axes and any(axes) else None), attributes

    # ------------------------------------------------------------ codec
    def codec(self, chunk_bytes: int) -> Codec:
        codec = self.schema.codec
        lossy = [stage for stage in codec.stages if is_filter(stage) and not _keeps(stage, self.dtype)]
        if lossy:
            loss = f"codec {', '.join(stage.name for stage in lossy)} does not keep every bit"
            if "codec" in self.asked:
                self.notes.append(f"{loss}: values may be rounded, as requested")
            else:
                self.notes.append(f"{loss}; it is left out, and values are kept as they are")
                codec = Codec(tuple(stage for stage in codec.stages if stage not in lossy))
        if self.version == 3 and "codec" not in self.asked:
            codec = self.zlib_as_gzip(codec)
        usual = USUAL_LONG if _most_bytes(USUAL, chunk_bytes) < chunk_bytes else USUAL
        if problem := self.codec_problem(codec, chunk_bytes):
            self.give_up("codec", problem, f"{usual} is used")
            return usual
        if self.version == 3 and (others := [stage.name for stage in codec.stages if not is_specified(stage)]):
            self.notes.append(f"codec {', '.join(others)} is not in zarr v3's specification: some readers lack it")
        return codec

    def codec_problem(self, codec: Codec, chunk_bytes: int) -> str | None:
        """The reason why a codec cannot be written, or None."""
        for stage in codec.stages:
            if self.version == 3 and "codec" not in self.asked and not is_specified(stage):
                return f"codec {codec} is not in zarr v3, which has {', '.join(sorted(V3))}; zarr2 has more"
            if chunk_bytes > (most := _most_bytes(Codec((stage,)), chunk_bytes)):
                return f"codec {stage.name} takes at most {most:,} bytes, a chunk has {chunk_bytes:,}"
        try:
            for stage in codec.stages:
                check(stage)
                if self.version == 3:
                    check_v3(stage, self.dtype)
            if any(map(is_filter, codec.stages)):
                trial(codec, self.dtype)
            Chain(codec, self.dtype).sizes(chunk_bytes)
            filters = [is_filter(stage) for stage in codec.stages]
            if self.version == 3 and filters != sorted(filters, reverse=True):
                raise ValueError("in zarr v3, filters of elements must come before codecs of bytes")
        except ValueError as error:
            return f"codec {codec} cannot be written: {error}"
        return None

    def zlib_as_gzip(self, codec: Codec) -> Codec:
        """The same compression in v3's container."""
        if "zlib" not in codec.names:
            return codec
        self.notes.append("codec zlib became gzip: zarr v3 has the same compression only in that form")
        stages = (_gzip(stage) if stage.name == "zlib" else stage for stage in codec.stages)
        return Codec(tuple(stages))


def chunk_limits(codec: Codec, version: int) -> ChunkLimits:
    """The largest chunk that a codec takes, and the most chunks that the index of a shard may have."""
    most = _most_bytes(codec, MAX_BYTES)
    return ChunkLimits(
        most_bytes=most if most < MAX_BYTES else None, shard_chunks=INDEX_BYTES // 16 if version == 3 else 0
    )


def adapt(schema: Schema, asked: Collection[str], version: int) -> Schema:
    """The nearest schema that a zarr array can have."""
    adapter = _Adapter(schema, asked, version)
    adapter.check_dtype()
    chunks = adapter.chunks()
    axes, kept = adapter.axes(adapter.attributes())
    adapted = replace(
        schema,
        chunks=chunks,
        shards=adapter.shards(chunks),
        order=adapter.order(),
        codec=adapter.codec(prod(chunks) * schema.dtype.itemsize),
        fill_value=adapter.fill_value(),
        attributes=kept,
        axes=axes,
    )
    try:
        describe(adapted, version)
    except FormatError as error:
        raise UsageError(str(error)) from None
    return replace(adapted, notes=tuple(dict.fromkeys(adapter.notes)))


def _most_bytes(codec: Codec, chunk_bytes: int) -> int:
    """The most bytes of a chunk that a codec accepts; those of the chunk where there is no limit."""
    limits = (CODECS[name].max_bytes for name in codec.names if name in CODECS)
    return min((limit for limit in limits if limit is not None), default=chunk_bytes)


def _keeps(stage: Stage, dtype: np.dtype[Any]) -> bool:
    try:
        check(stage)
    except ValueError:
        return True  # reported later, with its own message
    return find(stage.name).lossless(stage, dtype)


def _gzip(stage: Stage) -> Stage:
    level = stage.get("level", 6)
    return Stage.of("gzip", level=6 if level == -1 else level)


def _cast(value: Any, dtype: np.dtype[Any]) -> Any:
    """A scalar of the type with the same value, or None."""
    try:
        with np.errstate(all="ignore"):
            given = np.asarray(value)
            if given.dtype.kind == "c" and dtype.kind != "c":
                return None
            cast = given.astype(dtype.newbyteorder("="))
            both_nan = given.dtype.kind in "fc" and cast.dtype.kind in "fc" and np.isnan(given) and np.isnan(cast)
            same = given.shape == () and bool(cast == given or both_nan)
    except (TypeError, ValueError, OverflowError):
        return None
    return cast[()] if same else None


def _plain_nan(value: Any) -> Any:
    """The value with a plain NaN for each NaN that has a payload."""
    parts = np.array([value]).view(f"f{value.dtype.itemsize // (2 if value.dtype.kind == 'c' else 1)}")
    parts[np.isnan(parts)] = np.nan
    return parts.view(value.dtype)[0]
