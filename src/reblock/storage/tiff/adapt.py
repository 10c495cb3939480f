"""Adapt a schema to TIFF: what pages of strips or tiles can hold of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from reblock.errors import UsageError, option
from reblock.geometry.grid import Cut, chunk_text
from reblock.model.codec import Codec, Stage
from reblock.model.schema import Schema
from reblock.storage.attributes import is_text, to_json
from reblock.storage.checks import MAX_JSON_BYTES, dtype_problem, show
from reblock.storage.conventions import without_ties
from reblock.storage.tiff.description import OME_TYPES, ome_letters
from reblock.storage.tiff.geometry import TILE_STEP, has_samples

#: The codec that is used if the source's cannot be kept.
USUAL = Codec.parse("zlib:4")
#: Stages that compress a segment.
COMPRESSORS = {"zlib": 8, "lzw": 5, "rle": 32773, "lzma": 34925, "zstd": 50000}
_HELD = "none, zlib:LEVEL, zstd:LEVEL, lzw, rle and lzma, each with predictor before it"
#: The most pages of a new file, and the most bytes of a segment.
MAX_PAGES, MAX_SEGMENT_BYTES = 1 << 22, (1 << 32) - 1
#: Rows and columns are counted with 32 bits.
_MAX_SIDE = (1 << 32) - 1
#: Strips of long rows, and the least that is worth encoding, in bytes.
_STRIP_BYTES, _TILE_BYTES = 1 << 18, 1 << 16


class _PageAdapter:
    """Adapts one schema; what cannot be kept is an error if it was requested, otherwise a note."""

    def __init__(self, schema: Schema, asked: Collection[str], *, ome: bool) -> None:
        self.schema, self.asked, self.ome = schema, asked, ome
        self.name = "OME-TIFF" if ome else "TIFF"
        self.notes = list(schema.notes)

    def give_up(self, field: str, problem: str, instead: str) -> None:
        """Report something that cannot be kept; `instead` says what is done instead."""
        if field in self.asked:
            raise UsageError(f"{self.name}: {problem}")
        self.notes.append(f"{problem}; {instead}")

    def check_type(self) -> None:
        dtype = self.schema.dtype
        if problem := dtype_problem(dtype):
            raise UsageError(f"{self.name}: {problem}")
        if dtype.kind not in "iufc" or dtype.itemsize > 16 or (dtype.kind == "f" and dtype.itemsize > 8):
            instead = {"b": "u1", "f": "f8", "c": "c16"}.get(dtype.kind)
            advice = f"try {option('dtype', instead)}" if instead else "zarr and npy hold them"
            raise UsageError(f"{self.name} holds integers, floating point and complex numbers, not {dtype}; {advice}")
        if self.ome and dtype.str[1:] not in OME_TYPES:
            raise UsageError(
                f"OME-TIFF has no type {dtype}: it has {', '.join(OME_TYPES.values())}; use tiff, or another "
                f"{option('dtype')}"
            )

    def check_shape(self) -> None:
        shape, samples = self.schema.shape, has_samples(self.schema)
        if 0 in shape:
            raise UsageError(f"{self.name} cannot hold an array without elements, of shape {chunk_text(shape)}")
        sides = shape[: len(shape) - samples][-2:]
        pages = prod(shape[: len(shape) - samples][:-2])
        if max(sides, default=1) > _MAX_SIDE:
            raise UsageError(f"{self.name} holds pages of at most {_MAX_SIDE:,} rows and columns, not {sides}")
        if pages > MAX_PAGES:
            raise UsageError(
                f"{self.name}: {pages:,} pages, the limit is {MAX_PAGES:,}; transpose the axes, or use zarr"
            )
        if self.ome:
            ome_letters(self.schema)

    def order(self) -> tuple[int, ...]:
        straight = tuple(range(self.schema.ndim))
        if self.schema.order != straight:
            self.give_up("order", f"axis order {list(self.schema.order)} is not possible", "the last axis is fastest")
        return straight

    # ---------------------------------------------------------------- chunks
    def chunks(self, codec: Codec) -> tuple[Cut, ...]:
        schema = self.schema
        if len(schema.chunks) != schema.ndim:
            text = chunk_text(schema.chunks)
            raise UsageError(f"chunks {text} have {len(schema.chunks)} axes, the array has {schema.ndim}")
        if schema.shards is not None:
            self.give_up("shards", f"shards {chunk_text(schema.shards)} are not possible", "left out")
        lengths = [max(cut, default=1) if isinstance(cut, tuple) else cut for cut in schema.chunks]
        samples = has_samples(schema)
        last = schema.ndim - samples
        lead, shape = max(last - 2, 0), schema.shape
        made = [*([1] * lead), *map(min, lengths[lead:], shape[lead:])]
        if samples:
            made[-1] = shape[-1]
        if "chunks" not in self.asked and last > 1 and not self._is_cut_like_pages(made, lengths, last):
            made[lead:last] = self._usual(made[lead:last], shape[lead:last], codec)
        if last == 1:
            made[0] = shape[0]  # one row is one strip
        elif last > 1 and made[last - 1] < shape[last - 1]:
            made[lead:last] = [-(-n // TILE_STEP) * TILE_STEP for n in made[lead:last]]
            if made[last - 1] >= shape[last - 1]:
                made[lead:last] = [min(made[lead], shape[lead]), shape[last - 1]]
        made = self._bounded(made, codec)
        wanted = [cut if isinstance(cut, int) else -1 for cut in schema.chunks]
        if any(not _same(*three) for three in zip(made, wanted, schema.shape, strict=True)):
            self.give_up(
                "chunks",
                f"chunks {chunk_text(schema.chunks)} are not possible: {self.name} cuts pages into strips of whole "
                f"rows, or into tiles of multiples of {TILE_STEP}; {chunk_text(made)} are",
                "these are used",
            )
        return tuple(made)

    def _is_cut_like_pages(self, made: list[int], lengths: list[int], last: int) -> bool:
        """Whether chunks are strips or tiles, such as those of another TIFF file."""
        shape = self.schema.shape
        strips = made[last - 1] == shape[last - 1]
        tiles = all(
            n % TILE_STEP == 0 or n == length
            for n, length in zip(made[last - 2 : last], shape[last - 2 : last], strict=True)
        )
        return max(lengths[: last - 2], default=1) == 1 and (strips or tiles)

    def _usual(self, made: list[int], sides: tuple[int, ...], codec: Codec) -> list[int]:
        """Segments where chunks of another format do not fit: whole pages, or tiles that are worth encoding."""
        if not codec:
            return list(sides)
        while prod(made) * self.schema.dtype.itemsize < _TILE_BYTES and any(map(int.__lt__, made, sides)):
            made = [min(2 * n, side) for n, side in zip(made, sides, strict=True)]
        return made

    def _bounded(self, made: list[int], codec: Codec) -> list[int]:
        """Strips of fewer rows, if a segment has too many bytes for a 32-bit count."""
        schema, samples = self.schema, has_samples(self.schema)
        last = schema.ndim - samples
        size = prod(made[max(last - 2, 0) :]) * schema.dtype.itemsize
        if size <= MAX_SEGMENT_BYTES or last < 2:
            return made
        row = size // made[last - 2]
        if made[last - 1] < schema.shape[last - 1] or row > MAX_SEGMENT_BYTES:
            raise UsageError(f"{self.name}: a segment of {size:,} bytes, the limit is {MAX_SEGMENT_BYTES:,}")
        most = _STRIP_BYTES if codec else MAX_SEGMENT_BYTES
        return [*made[: last - 2], max(most // row, 1), *made[last - 1 :]]

    # ---------------------------------------------------------------- codec
    def codec(self) -> Codec:
        codec = self.schema.codec
        if not codec:
            return codec
        stages = [_stage(stage) for stage in codec.stages]
        names = [stage.name for stage in stages if stage is not None]
        predicted = names[:1] == ["predictor"]
        fits = None not in stages and len(names) == 1 + predicted and names[-1] in COMPRESSORS
        if predicted and self.schema.dtype.kind == "c":
            fits = False
        if not fits:
            self.give_up("codec", f"codec {codec} is not possible: TIFF has {_HELD}", f"{USUAL} is used")
            return USUAL
        found = Codec(tuple(stage for stage in stages if stage is not None))
        if found.names != codec.names:
            self.notes.append(f"codec {codec} became {found}: TIFF has the same compression in that form")
        return found

    # ---------------------------------------------------------------- metadata
    def fill_value(self) -> Any:
        value, dtype = self.schema.fill_value, self.schema.dtype
        if value is None:
            return None
        if isinstance(value, np.generic) and value.dtype.newbyteorder("=") == dtype.newbyteorder("="):
            return value
        try:
            with np.errstate(all="ignore"):
                cast = np.asarray(value).astype(dtype)
                same = cast.shape == () and bool(cast == value or (cast != cast and value != value))  # noqa: PLR0124 - NaN
        except (TypeError, ValueError, OverflowError):
            same = False
        if same:
            return cast[()]
        self.give_up("fill_value", f"fill value {show(value)} is not of type {dtype}", "left out")
        return None

    def attributes(self) -> dict[str, Any]:
        given, ties = without_ties(self.schema.attributes)
        kept, changed = to_json(given)
        self.notes += [*ties, *changed]
        for name, value in list(kept.items()):
            if len(repr(value)) > MAX_JSON_BYTES // 8:
                del kept[name]
                self.notes.append(f"attribute {name!r} is not kept: it is too long for ImageDescription")
        return kept

    def axes(self) -> tuple[str, ...] | None:
        axes = self.schema.axes
        if axes is None or (len(axes) == self.schema.ndim and all(map(is_text, axes))):
            return axes
        self.give_up("axes", f"axis names {show(axes)} are not one text for each axis", "left out")
        return None


def _same(made: int, wanted: int, length: int) -> bool:
    """Whether two chunk lengths cut an axis in the same way."""
    return made == wanted or (made >= length and wanted >= length)


def _stage(stage: Stage) -> Stage | None:
    """A stage as TIFF has it, or None."""
    settings = dict(stage.settings)
    if stage.name in ("gzip", "zlib"):
        level = settings.pop("level", 6)
        return Stage.of("zlib", level=6 if level == -1 else level) if not settings else None
    if stage.name == "zstd":
        level = settings.pop("level", 3)
        return Stage.of("zstd", level=level) if not any(settings.values()) else None
    if stage.name == "predictor":
        return stage if set(settings) <= {"kind"} else None
    return Stage.of(stage.name) if stage.name in COMPRESSORS and not settings else None


def adapt_schema(schema: Schema, asked: Collection[str], *, ome: bool) -> Schema:
    """The nearest schema that a file can hold."""
    adapter = _PageAdapter(schema, asked, ome=ome)
    adapter.check_type()
    named = replace(schema, axes=adapter.axes())
    adapter.schema = named
    adapter.check_shape()
    order, codec = adapter.order(), adapter.codec()
    adapted = replace(
        named,
        chunks=adapter.chunks(codec),
        shards=None,
        order=order,
        codec=codec,
        fill_value=adapter.fill_value(),
        attributes=adapter.attributes(),
    )
    return replace(adapted, notes=tuple(dict.fromkeys(adapter.notes)))
