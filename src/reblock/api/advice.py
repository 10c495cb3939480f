"""Advising: which chunks serve the accesses to an array, and whether converting to them pays."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from reblock.advisor.advice import Advice, Conversion, Question, consider
from reblock.advisor.document import ArrayAxes
from reblock.advisor.media import MEDIA_GOALS
from reblock.advisor.price import GOALS, Pricing
from reblock.advisor.proportional import DEFAULT_CHUNK_BYTES
from reblock.advisor.search import Bounds
from reblock.api.access import find_pattern
from reblock.api.array import Array, ArraySource, open_array
from reblock.api.devices import AUTO_DEVICE, find_device, find_devices
from reblock.api.machine import parse_memory
from reblock.api.planning import plan_array
from reblock.api.request import AccessGiven, abstract_source, one_of, parse_codec
from reblock.engine import View
from reblock.errors import InfeasibleError, UsageError, option, options
from reblock.geometry.grid import chunk_text
from reblock.geometry.notation import Chunks, Shape, parse_shape
from reblock.model import AccessClass, AccessPattern, ChunkLimited, ChunkLimits, Codec, Device, Format, Layout
from reblock.storage import registry
from reblock.storage.location import Location, Where
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists
from reblock.storage.roots import FileRoots
from reblock.units import format_size, parse_size

#: The least bytes of a chunk, unless a smaller size is asked for, and that size over the least one.
LEAST_BYTES, SIZES = 64 << 10, 128
#: The format of the target where that of the source has no chunks.
_CHUNKED = "zarr"


@dataclass(frozen=True)
class Subject:
    """The array that advice is for."""

    axes: ArrayAxes
    """Its shape, and the names of its axes."""
    layout: Layout | None
    """How it is stored; None if that is not known."""
    itemsize: int
    """Bytes of an element."""
    codec: Codec
    """Codec of its chunks."""
    format: Format
    """The format of the target."""
    array: Array | None = None
    """The array itself, where it is stored."""

    @property
    def location(self) -> str:
        """Where it is stored."""
        return "" if self.array is None else self.array.store.location


def advise(
    source: ArraySource | None = None,
    *,
    access: AccessGiven | None = None,
    log: Where | None = None,
    model: str | None = None,
    block_size: str | int | None = None,
    objective: str = "time",
    shards: str | None = None,
    copies: int | None = None,
    media: int | None = None,
    goal: str = "few",
    device: str | Device = AUTO_DEVICE,
    memory: str | int | None = None,
    from_format: str | None = None,
    allow_external: Sequence[Where] = (),
    to_format: str | None = None,
    shape: Shape | None = None,
    dtype: Any = None,
    source_chunks: Chunks | None = None,
    source_codec: str | Codec | None = None,
) -> Advice:
    """Find the chunks that serve the accesses to an array best, and tell after how many accesses converting pays.

    The accesses are a preset such as `time-series=3,maps`, a file, a document, or the log of real reads. The array is
    stored, or described by `shape` and `dtype` (and `source_chunks`). `block_size` is the most bytes of a chunk, or
    a range `64KiB:8MiB`. With `media`, chunks or shards are placed on that number of media, so that an access touches
    few or many of them. Nothing is written.

    Examples
    --------
    >>> import reblock
    >>> classes = [{"shape": [10, 400, 10]}, {"shape": [20, 5, 400]}]
    >>> advice = reblock.advise(
    ...     shape=(100, 2000, 8000),
    ...     dtype="u1",
    ...     access={"model": "aligned", "classes": classes},
    ...     block_size=8000,
    ...     objective="blocks",
    ... )
    >>> advice.best.chunks, advice.best.mean.blocks, advice.order
    ((20, 20, 20), 20.0, (0, 2, 1))
    """
    one_of(option("objective"), objective, GOALS)
    one_of(option("goal"), goal, MEDIA_GOALS)
    if source is None:
        subject = _described(shape, dtype, source_chunks, parse_codec(source_codec), to_format)
    else:
        _refuse_description(shape, dtype, source_chunks, source_codec)
        subject = _stored(source, from_format, allow_external, to_format)
    _refuse_empty(subject.axes.shape)
    location = subject.location or None
    pattern = find_pattern(access, log, subject.axes, location=location, model=model)
    memory_bytes = parse_memory(memory)
    question = _question(subject, pattern, block_size, objective, shards, _device(device, subject, memory_bytes))
    question = replace(question, copies=copies, media=media, media_goal=goal)
    advice = consider(question, location or f"an array of {chunk_text(subject.axes.shape)}")
    if pattern is None:
        advice = _by_default(advice, question)
    return _converted(advice, subject, memory, device)


# ---------------------------------------------------------------- the array
def _refuse_description(*given: Any) -> None:
    if any(one is not None for one in given):
        described = options("shape", "dtype", "source_chunks", "source_codec")
        raise UsageError(f"{described} describe a source that is not given")


def _stored(
    source: ArraySource, from_format: str | None, allow_external: Sequence[Where], to_format: str | None
) -> Subject:
    array = open_array(source, from_format, allow_external)
    store, schema = array.store, array.store.schema
    return Subject(
        ArrayAxes(schema.shape, schema.axes),
        store.layout,
        schema.dtype.itemsize,
        schema.codec,
        _target_format(to_format, store.format),
        array,
    )


def _described(
    shape: Shape | None, dtype: Any, source_chunks: Chunks | None, codec: Codec | None, to_format: str | None
) -> Subject:
    if shape is None or dtype is None:
        raise UsageError(f"advice without a source needs {options('shape', 'dtype')}")
    sides = parse_shape(shape)
    _refuse_empty(sides)
    layout = abstract_source(sides, dtype, sides if source_chunks is None else source_chunks, codec)
    known = layout if source_chunks is not None else None
    return Subject(ArrayAxes(sides), known, layout.itemsize, codec or Codec(), _target_format(to_format, _CHUNKED))


def _refuse_empty(shape: Sequence[int]) -> None:
    if 0 in shape:
        raise UsageError(f"an array of {chunk_text(shape)} has no elements to read")


def _target_format(to_format: str | None, own: str) -> Format:
    """The format of the target: as asked for, or the source's own if it has chunks."""
    kind = registry.get(to_format or own)
    if limits_of(kind, Codec()).chunked:
        return kind
    if to_format is not None:
        raise UsageError(f"{option('to_format', to_format)}: {to_format} arrays have no chunks to choose")
    return registry.get(_CHUNKED)


def limits_of(kind: Format, codec: Codec) -> ChunkLimits:
    """What a format says about chunks."""
    return kind.chunk_limits(codec) if isinstance(kind, ChunkLimited) else ChunkLimits()


def _device(device: str | Device, subject: Subject, memory_bytes: int) -> Device:
    if subject.array is None:
        return find_device(device)
    view = View.whole(subject.array.store)
    layouts = (view.layout, view.layout)
    return find_devices((device, None, None), view, None, layouts, view.store.schema, memory_bytes).source


# ---------------------------------------------------------------- the question
def parse_block_size(block_size: str | int | None) -> tuple[int, int]:
    """The least and the most bytes of a chunk: `8MiB`, or a range `64KiB:8MiB`."""
    if block_size is None:
        return LEAST_BYTES, DEFAULT_CHUNK_BYTES
    low, colon, high = str(block_size).partition(":")
    most = parse_size(high if colon else block_size)
    least = parse_size(low) if colon else min(LEAST_BYTES, most // SIZES)
    if most < 1 or least > most:
        raise UsageError(f"{option('block_size')} is a size above 0 or a range like 64KiB:8MiB, not {block_size!r}")
    return least, most


def chunk_bounds(
    shape: Sequence[int],
    itemsize: int,
    limits: ChunkLimits,
    block_size: str | int | None,
    fixed: Sequence[int | None] | None = None,
) -> Bounds:
    """The chunks that a format and a range of sizes allow."""
    least, most = parse_block_size(block_size)
    if limits.most_bytes is not None:
        most = min(most, limits.most_bytes)
    if most < itemsize and block_size is not None:
        raise UsageError(f"{option('block_size')}: an element has {itemsize} bytes, a chunk at most {most}")
    return Bounds.of(shape, max(most // itemsize, 1), max(least // itemsize, 1), fixed)


def _question(
    subject: Subject,
    pattern: AccessPattern | None,
    block_size: str | int | None,
    objective: str,
    shards: str | None,
    device: Device,
) -> Question:
    shape, limits = subject.axes.shape, limits_of(subject.format, subject.codec)
    bounds = chunk_bounds(shape, subject.itemsize, limits, block_size)
    if shards is not None:
        one_of(option("shards"), shards, ("auto", "none"))
    if shards == "auto" and not limits.shard_chunks:
        raise UsageError(f"{option('shards', shards)}: {subject.format.name} has no shards")
    stored = subject.layout
    sharded = shards == "auto" or (shards is None and stored is not None and stored.files is not None)
    part = stored.stored_part if stored is not None else 1.0
    whole = pattern or AccessPattern((AccessClass(tuple(shape), name="everything"),))
    pricing = Pricing(whole, tuple(shape), subject.itemsize, device, str(subject.codec or ""), part)
    return Question(
        pricing,
        bounds,
        objective,
        stored,
        shard_chunks=limits.shard_chunks if sharded else 0,
        block_bytes=parse_block_size(block_size)[1],
    )


def _by_default(advice: Advice, question: Question) -> Advice:
    """Advice without a pattern: the default chunk."""
    default = next(one for one in advice.candidates if one.method == "default")
    kept = tuple(one for one in advice.candidates if one.method in ("today", "default"))
    return replace(
        advice,
        pattern=AccessPattern(()),
        best=default,
        candidates=kept,
        order=tuple(range(len(advice.shape))),
        orders=(),
        copies=(),
        notes=(
            f"no accesses were named: chunks have the proportions of the array and at most "
            f"{format_size(question.block_bytes)}; {option('access')} or {option('log')} does better",
        ),
    )


# ---------------------------------------------------------------- the conversion
def _converted(advice: Advice, subject: Subject, memory: str | int | None, device: str | Device) -> Advice:
    """The advice with what it takes to convert the array, and the command that does."""
    notes = (*advice.notes, *advice.pattern.notes)
    command = _command(advice, subject, memory)
    today = advice.today
    if today is None or subject.layout is None:
        return replace(advice, command=command, notes=notes)
    if (today.chunks, today.shards) == (advice.best.chunks, advice.best.shards):
        notes = (*notes, "the array has these chunks already")
        return replace(advice, conversion=Conversion(0.0, 0, None), notes=notes)
    wanted: dict[str, Any] = {"chunks": advice.best.chunks, "memory": memory, "device": device}
    if subject.array is None:
        wanted["shape"], wanted["dtype"] = advice.shape, subject.layout.dtype
        wanted["source_chunks"] = [axis.step or tuple(axis.lengths()) for axis in subject.layout.objects.axes]
        wanted["source_codec"] = subject.codec or None
    else:
        wanted["shards"], wanted["to_format"] = advice.best.shards, subject.format.name
    try:
        job = plan_array(subject.array, **wanted)
    except InfeasibleError as error:
        return replace(advice, command=command, notes=(*notes, f"converting: {error.message}"))
    cost = job.cost
    found = Conversion.of(
        cost.seconds, cost.bytes_read + cost.bytes_written, today.mean.seconds, advice.best.mean.seconds
    )
    return replace(advice, conversion=found, command=command, notes=notes)


def _command(advice: Advice, subject: Subject, memory: str | int | None) -> str:
    """The command that converts the array."""
    best = advice.best
    words = ["reblock", "run", subject.location or "SRC", _target(subject)]
    words += ["--chunks", chunk_text(best.chunks or ())]
    if best.shards is not None:
        words += ["--shards", chunk_text(best.shards)]
        if advice.order != tuple(range(len(advice.shape))):
            words += ["--chunk-order", ",".join(map(str, advice.order))]
    if memory is not None:
        words += ["--memory", str(memory)]
    for folder in _allowed(subject):
        words += ["--allow-external", folder]
    named = subject.format.suffixes and Location.parse(words[3]).path.endswith(subject.format.suffixes[0])
    if not named or subject.format.name == "zarr2":
        words += ["--to", subject.format.name]
    return shlex.join(words)


def _allowed(subject: Subject) -> tuple[str, ...]:
    """Folders from which parts of the array are read."""
    roots = None if subject.array is None else subject.array.store.roots
    return roots.allowed if isinstance(roots, FileRoots) else ()


def _target(subject: Subject) -> str:
    """A name for the target that is free: that of the source, with its format's ending."""
    where = Location.parse(subject.location or "array")
    stem, ending = os.path.splitext(where.path.rstrip("/"))
    stem = f"{stem}-{where.inner.replace('/', '-')}" if where.inner else stem
    ending = (*subject.format.suffixes, ending)[0] if subject.format.suffixes else ""
    tail = "" if subject.format.suffixes else "/"
    # Programs find the array under the name that they know, if the format is one that has such names.
    same = subject.array is not None and subject.array.store.format == subject.format.name
    inner = f"::{where.inner}" if where.inner and same else ""
    number = 1
    while True:
        path = f"{stem}-chunked{'' if number == 1 else f'-{number}'}{ending}{tail}"
        if "://" in path or not exists(LOCAL, path.rstrip("/")):
            return path + inner
        number += 1
