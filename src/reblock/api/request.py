"""Requests: what a caller asks for, in words and defaults, made into schemas and layouts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reblock.engine import View
from reblock.errors import UsageError, option
from reblock.geometry import Grid
from reblock.geometry.grid import Cut, chunk_text
from reblock.geometry.notation import AUTO, Chunks, Order, Ranges, parse_chunks, parse_order, parse_region
from reblock.model import NO_RECORD, Codec, Format, Layout, Schema
from reblock.model.codec import Stage
from reblock.planner import dividing, proportional
from reblock.storage import registry
from reblock.storage.codecs.coding import coding
from reblock.storage.codecs.registry import is_checksum


def wanted_schema(view: View, chunks: Chunks | None, shards: Chunks | None, codec: Codec | None, dtype: Any) -> Schema:
    """What is wanted of the target: the source's own properties but for what was asked."""
    schema, layout = view.store.schema, view.layout
    shape = layout.shape
    kept = _kept_chunks(view)
    names = tuple(schema.axes[a] for a in view.axes) if schema.axes else None
    cuts = kept if chunks is None else parse_chunks(chunks, shape, kept, names)
    wanted_dtype = schema.dtype if dtype is None else _dtype(dtype)
    outer = None if shards is None else _whole_numbers(parse_chunks(shards, shape, kept, names), "shards")
    if outer is not None and chunks is None and not _divide(cuts, outer):
        cuts = (AUTO,) * len(outer)
    chosen = _chosen(cuts, shape, wanted_dtype.itemsize, outer)
    fitting, clipped = _clipped(chosen, shape)
    return replace(
        schema,
        shape=shape,
        dtype=wanted_dtype,
        chunks=fitting,
        shards=outer and _covering(outer, fitting, shape),
        order=tuple(range(len(shape))),
        codec=schema.codec if codec is None else codec,
        fill_value=_cast(schema.fill_value, wanted_dtype),
        axes=names,
        record=NO_RECORD,
        notes=(*schema.notes, *_conversion(schema.dtype, wanted_dtype), *clipped),
    )


def target_schema(kind: Format, wanted: Schema, asked: Collection[str], *, checksum: bool) -> Schema:
    """What the target will be: the nearest to what is wanted that its format can hold, with a checksum if asked for."""
    schema = kind.adapt(wanted, asked)
    if not checksum or any(map(is_checksum, schema.codec.stages)):
        return schema
    if not kind.checksum:
        having = ", ".join(name for name in registry.formats() if registry.get(name).checksum)
        raise UsageError(f"{option('checksum')}: {kind.name} has no place for checksums of chunks; {having} have")
    codec = Codec((*schema.codec.stages, Stage.of(kind.checksum)))
    schema = kind.adapt(replace(schema, codec=codec), {*asked, "codec"})
    return replace(schema, notes=tuple(dict.fromkeys(schema.notes)))


def _conversion(before: np.dtype[Any], after: np.dtype[Any]) -> tuple[str, ...]:
    """What becomes of elements of another type, in words."""
    if before.newbyteorder("=") == after.newbyteorder("="):
        return () if before == after else (f"byte order changes from {before.str} to {after.str}",)
    loses = "" if np.can_cast(before, after, "safe") else ": values that do not fit are rounded, wrapped or cut off"
    return (f"elements are converted from {before.name} to {after.name}{loses}",)


def _kept_chunks(view: View) -> tuple[Cut, ...]:
    """The source's chunks in the target's axes; a contiguous source has none worth keeping."""
    if is_contiguous(view.store.layout) and view.layout.nbytes > 0:
        return proportional(view.layout.shape, view.layout.itemsize)
    cuts: list[Cut] = []
    for axis in view.axes:
        cut, length = view.store.schema.chunks[axis], view.store.layout.shape[axis]
        whole = (view.region.start[axis], view.region.stop[axis]) == (0, length)
        cuts.append(cut if isinstance(cut, int) or whole else max(cut))
    return tuple(cuts)


def is_contiguous(layout: Layout) -> bool:
    """Whether the array is one run of bytes that can be written anywhere, not a chunk."""
    return layout.objects.count <= 1 and layout.partial_writes and not layout.encoded


def _chosen(
    cuts: Sequence[Cut | str], shape: Sequence[int], itemsize: int, shards: Sequence[int] | None = None
) -> tuple[Cut, ...]:
    """Chunks with `auto` filled in: even shares of the array, or parts that divide a shard."""
    if AUTO not in cuts:
        return tuple(cut for cut in cuts if not isinstance(cut, str))
    free = [d for d, cut in enumerate(cuts) if cut == AUTO]
    fixed = itemsize
    for cut in cuts:
        if not isinstance(cut, str):
            fixed *= cut if isinstance(cut, int) else max(cut, default=1)
    found = proportional([shape[d] for d in free], fixed)
    if shards is not None and len(shards) == len(cuts):
        found = dividing([shards[d] for d in free], fixed)
    chosen = dict(zip(free, found, strict=True))
    return tuple(chosen[d] if isinstance(cut, str) else cut for d, cut in enumerate(cuts))


def _divide(cuts: Sequence[Cut | str], shards: Sequence[int]) -> bool:
    """Whether shards are made of whole chunks."""
    if len(cuts) != len(shards):
        return True
    return all(isinstance(cut, int) and shard % cut == 0 for cut, shard in zip(cuts, shards, strict=True))


def _clipped(chunks: tuple[Cut, ...], shape: Sequence[int]) -> tuple[tuple[Cut, ...], tuple[str, ...]]:
    """Chunks no longer than the array, and a note where some were: the rest of them would be padding."""
    if len(chunks) != len(shape):
        return chunks, ()
    fitting = tuple(
        min(cut, max(length, 1)) if isinstance(cut, int) else cut for cut, length in zip(chunks, shape, strict=True)
    )
    if fitting == chunks:
        return chunks, ()
    return fitting, (f"chunks {chunk_text(chunks)} are longer than the array, {chunk_text(fitting)} are used",)


def _covering(shards: tuple[int, ...], chunks: Sequence[Cut], shape: Sequence[int]) -> tuple[int, ...]:
    """Shards no longer than the chunks that cover the array."""
    if len(shards) != len(chunks):
        return shards
    most = (-(-n // c) * c if isinstance(c, int) else s for n, c, s in zip(shape, chunks, shards, strict=True))
    return tuple(min(shard, max(n, 1)) for shard, n in zip(shards, most, strict=True))


def abstract_layouts(
    shape: tuple[int, ...],
    dtype: Any,
    source_chunks: Chunks,
    source_codec: Codec | None,
    chunks: Chunks,
    codec: Codec | None,
    transpose: Order | None,
    region: Ranges | None,
) -> tuple[Layout, Schema, Layout]:
    """Source layout, target schema and target layout of a problem that is only arithmetic."""
    kind = _dtype(dtype)
    cuts = _chosen(parse_chunks(source_chunks, shape, shape), shape, kind.itemsize)
    view = _raw(kind, Grid.of(shape, cuts), source_codec).view(
        parse_region(region, shape), parse_order(transpose, len(shape))
    )
    given = _chosen(parse_chunks(chunks, view.shape, view.shape), view.shape, kind.itemsize)
    wanted, notes = _clipped(given, view.shape)
    codec = source_codec if codec is None else codec
    schema = Schema(view.shape, kind, wanted, codec=codec or Codec(), notes=notes)
    return view, schema, _raw(kind, Grid.of(view.shape, wanted), codec)


def _raw(dtype: np.dtype[Any], grid: Grid, codec: Codec | None) -> Layout:
    layout = Layout.raw(dtype, grid)
    if not codec:
        return layout
    taken = coding(codec, dtype, layout.unit_bytes)
    return replace(layout, codec=str(codec), partial_reads=False, partial_writes=False, coding=taken)


def parse_codec(value: str | Codec | None) -> Codec | None:
    """A codec as a caller may give it."""
    return Codec.parse(value) if isinstance(value, str) else value


def _dtype(value: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except TypeError as error:
        raise UsageError(f"unknown dtype {value!r}: {error}") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise UsageError(f"elements of dtype {value!r} have no fixed bytes to move")
    return dtype


def _cast(fill: Any, dtype: np.dtype[Any]) -> Any:
    if fill is None:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(fill).astype(dtype)[()]


def _whole_numbers(cuts: Sequence[Cut | str], what: str) -> tuple[int, ...]:
    if not all(isinstance(cut, int) for cut in cuts):
        raise UsageError(f"{what} must be one length per axis")
    return tuple(cut for cut in cuts if isinstance(cut, int))


def is_strict(on_missing: str) -> bool:
    """Whether chunks that are not stored are errors."""
    return one_of(option("on_missing"), on_missing, ("fill", "error")) == "error"


def one_of(what: str, value: str, allowed: tuple[str, ...]) -> str:
    """The value, if it is one of those allowed."""
    if value not in allowed:
        raise UsageError(f"{what} must be {' or '.join(allowed)}, not {value!r}")
    return value
