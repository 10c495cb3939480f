"""Requests: what a caller asks for, in words and defaults, made into schemas and layouts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from reblock.advisor.proportional import dividing, proportional
from reblock.api.conversion import converted_schema, parse_dtype
from reblock.engine import View
from reblock.errors import UsageError, either, option
from reblock.geometry import Grid
from reblock.geometry.chunk_order import parse_chunk_order
from reblock.geometry.grid import Cut, chunk_text
from reblock.geometry.notation import AUTO, Chunks, Order, Ranges, parse_chunks, parse_order, parse_region
from reblock.model import NO_RECORD, AccessPattern, ChunkLimited, Codec, Format, Layout, Schema
from reblock.model.codec import Stage
from reblock.storage import registry
from reblock.storage.codecs.coding import coding
from reblock.storage.codecs.registry import is_checksum
from reblock.storage.location import Where
from reblock.storage.space import view_in_space


class Chooser(Protocol):
    """Chooses chunks, shards and their order for accesses (`api/choosing.py`)."""

    @property
    def pattern(self) -> AccessPattern | None:
        """The accesses."""

    def chunks(self, cuts: Sequence[Cut | str], shards: Sequence[int] | None) -> tuple[tuple[Cut, ...], str]:
        """Chunks with `auto` filled in, and a remark on them."""

    def shards(self, chunks: Sequence[int]) -> tuple[int, ...]:
        """Shards around chunks."""

    def order(self, chunks: Sequence[int], shards: Sequence[int] | None) -> str:
        """The best order of chunks."""


#: Accesses as callers give them: a preset, a file, a document, or a pattern.
AccessGiven = Where | Mapping[str, Any] | AccessPattern
#: Makes the chooser for a target: its shape, the names of its axes, the size of its elements, and its codec.
MakeChooser = Callable[[tuple[int, ...], tuple[str, ...] | None, int, Codec], Chooser]


@dataclass(frozen=True)
class Wishes:
    """What a caller wishes of a target, as given."""

    chunks: Chunks | None = None
    """Its chunks; None = the source's."""
    shards: Chunks | None = None
    """Its shards."""
    chunk_order: Order | None = None
    """Order of chunks inside shards."""
    codec: Codec | None = None
    """Its codec; None = the source's."""
    dtype: Any = None
    """Its type; None = the source's."""
    fill_value: Any = None
    """Its fill value; None = the source's."""
    choose: MakeChooser | None = None
    """Makes the chooser, where something is to be chosen."""


def wanted_schema(view: View, wishes: Wishes) -> Schema:
    """What is wanted of the target: the source's own properties but for what was asked."""
    schema, shape = view.store.schema, view.layout.shape
    schema = converted_schema(schema, wishes.dtype, wishes.fill_value, checked=view.checked)
    kept = _kept_chunks(view)
    names = tuple(schema.axes[a] for a in view.axes) if schema.axes is not None else None
    cuts = kept if wishes.chunks is None else parse_chunks(wishes.chunks, shape, kept, names)
    codec = schema.codec if wishes.codec is None else wishes.codec
    chooser = None if wishes.choose is None else wishes.choose(shape, names, schema.dtype.itemsize, codec)
    outer, auto_shards = _outer(wishes.shards, shape, kept, names)
    if outer is not None and wishes.chunks is None and not _divide(cuts, outer):
        cuts = (AUTO,) * len(outer)
    if chooser is None or chooser.pattern is None:
        chosen, remarks = _chosen(cuts, shape, schema.dtype.itemsize, outer), list[str]()
    else:
        chosen, remark = chooser.chunks(cuts, outer)
        remarks = [remark]
    fitting, clipped = _clipped(chosen, shape)
    if auto_shards and chooser is not None:
        outer = chooser.shards(_whole_numbers(fitting, "chunks inside shards"))
    attributes, lost = view_in_space(schema.attributes, schema.axes, view.region, view.axes)
    return replace(
        schema,
        shape=shape,
        chunks=fitting,
        shards=outer and _covering(outer, fitting, shape),
        order=tuple(range(len(shape))),
        chunk_order=_chunk_order(wishes.chunk_order, chooser, fitting, outer, names),
        codec=codec,
        attributes=attributes,
        axes=names,
        unlimited=tuple(schema.unlimited[a] for a in view.axes) if schema.unlimited else (),
        record=NO_RECORD,
        notes=(*schema.notes, *lost, *clipped, *remarks),
    )


def _outer(
    shards: Chunks | None, shape: tuple[int, ...], kept: tuple[Cut, ...], names: tuple[str, ...] | None
) -> tuple[tuple[int, ...] | None, bool]:
    """The shards, or that they are to be chosen."""
    if shards is None:
        return None, False
    cuts = parse_chunks(shards, shape, kept, names)
    if cuts and all(cut == AUTO for cut in cuts):
        return None, True
    return _whole_numbers(cuts, "shards"), False


def _chunk_order(
    order: Order | None,
    chooser: Chooser | None,
    chunks: Sequence[Cut],
    shards: tuple[int, ...] | None,
    names: tuple[str, ...] | None,
) -> str:
    """The order of chunks inside shards, as text."""
    if order is None:
        return ""
    if isinstance(order, str) and order.strip() == AUTO and chooser is not None:
        return chooser.order(_whole_numbers(chunks, "chunks inside shards"), shards)
    return parse_chunk_order(order, len(chunks), names)


def target_schema(kind: Format, wanted: Schema, asked: Collection[str], *, checksum: bool) -> Schema:
    """What the target will be: the nearest to what is wanted that its format can hold, with a checksum if asked for."""
    schema = kind.adapt(wanted, asked)
    if "fill_value" in asked and schema.fill_value is None and wanted.fill_value is not None:
        raise UsageError(f"{option('fill_value')}: {kind.name} has no fill value")
    ordered = isinstance(kind, ChunkLimited) and kind.chunk_limits(schema.codec).ordered
    if "chunk_order" in asked and schema.shards is None and not ordered:
        raise UsageError(
            f"{option('chunk_order')} orders the chunks inside shards, and the target has none: "
            f"give {option('shards')}, with zarr"
        )
    if not checksum or any(map(is_checksum, schema.codec.stages)):
        return schema
    if not kind.checksum:
        having = ", ".join(name for name in registry.file_formats() if registry.get(name).checksum)
        raise UsageError(f"{option('checksum')}: {kind.name} has no place for checksums of chunks; {having} have")
    codec = Codec((*schema.codec.stages, Stage.of(kind.checksum)))
    schema = kind.adapt(replace(schema, codec=codec), {*asked, "codec"})
    return replace(schema, notes=tuple(dict.fromkeys(schema.notes)))


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
    choose: MakeChooser | None = None,
) -> tuple[Layout, Schema, Layout]:
    """Source layout, target schema and target layout of a problem that is only arithmetic."""
    kind = parse_dtype(dtype)
    view = abstract_source(shape, kind, source_chunks, source_codec).view(
        parse_region(region, shape), parse_order(transpose, len(shape))
    )
    codec = source_codec if codec is None else codec
    cuts, remarks = parse_chunks(chunks, view.shape, view.shape), list[str]()
    if choose is None:
        given = _chosen(cuts, view.shape, kind.itemsize)
    else:
        given, remark = choose(view.shape, None, kind.itemsize, codec or Codec()).chunks(cuts, None)
        remarks.append(remark)
    wanted, notes = _clipped(given, view.shape)
    notes = (*notes, *remarks)
    schema = Schema(view.shape, kind, wanted, codec=codec or Codec(), notes=notes)
    return view, schema, _raw(kind, Grid.of(view.shape, wanted), codec)


def abstract_source(shape: tuple[int, ...], dtype: Any, chunks: Chunks, codec: Codec | None) -> Layout:
    """Layout of an array that is only described."""
    kind = parse_dtype(dtype)
    return _raw(kind, Grid.of(shape, _chosen(parse_chunks(chunks, shape, shape), shape, kind.itemsize)), codec)


def _raw(dtype: np.dtype[Any], grid: Grid, codec: Codec | None) -> Layout:
    layout = Layout.raw(dtype, grid)
    if not codec:
        return layout
    taken = coding(codec, dtype, layout.unit_bytes)
    return replace(layout, codec=str(codec), partial_reads=False, partial_writes=False, coding=taken)


def parse_codec(value: str | Codec | None) -> Codec | None:
    """A codec as a caller may give it."""
    return Codec.parse(value) if isinstance(value, str) else value


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
        raise UsageError(f"{what} must be {either(allowed)}, not {value!r}")
    return value
