"""Adapt a schema to HDF5: the nearest schema that a dataset can have."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import UsageError, option
from reblock.geometry import Grid
from reblock.geometry.grid import Cut, chunk_text
from reblock.model.codec import Codec, Stage
from reblock.model.schema import Schema, element
from reblock.storage import checks
from reblock.storage.attributes import is_text, to_json
from reblock.storage.conventions import FILL_VALUE, NAT, fill_attribute, time_attributes, without_ties
from reblock.storage.hdf5.filters import is_ours, library_note, pipeline_of
from reblock.storage.hdf5.metadata import KINDS

USUAL = Codec.parse("shuffle+gzip:4")
#: HDF5 counts a chunk's bytes with 32 bits.
CHUNK_LIMIT = (1 << 32) - 1
#: HDF5 limits each message of a dataset's header, such as the fill value, to less than 64 KiB.
MOST_FILL_BYTES = 65_000
_HELD = "none, gzip:LEVEL, lzf and, if asked for, zstd:LEVEL, each with shuffle before and fletcher32 after it"
#: Stages that a dataset can have.
_STAGES = ("gzip", "shuffle", "lzf", "fletcher32")
_COMPRESSORS = {"gzip", "lzf", "zstd"}
_PLUGIN = "zstd is a plugin of HDF5: h5py needs hdf5plugin to read it, the NetCDF library its own filters"


def adapt_schema(schema: Schema, asked: Collection[str]) -> Schema:
    """The nearest schema that a dataset can have; UsageError if a requested field cannot be held."""
    if schema.dtype.kind in "mM":
        schema = _times(schema, asked)
    if problem := checks.dtype_problem(schema.dtype, KINDS):
        raise UsageError(f"HDF5 cannot hold this type: {problem}")
    if schema.ndim > checks.MAX_RANK:
        raise UsageError(f"HDF5 holds at most {checks.MAX_RANK} axes, not {schema.ndim}")
    if "order" in asked and schema.order != tuple(range(schema.ndim)):
        raise UsageError(f"HDF5 stores the last axis fastest: not in axis order {schema.order}; transpose instead")
    notes = list(schema.notes)
    if schema.shards is not None:
        if "shards" in asked:
            raise UsageError(
                f"HDF5 has no shards: leave out shards {chunk_text(schema.shards)}, or give chunks instead"
            )
        notes.append(f"shards {chunk_text(schema.shards)} are not kept: HDF5 has none")
    codec = _codec(schema, asked, notes)
    chunks = _chunks(schema, asked, notes)
    if codec or not is_whole(schema.shape, chunks):
        _check_chunk(chunks, schema.dtype.itemsize)
    return replace(
        schema,
        chunks=chunks,
        shards=None,
        order=tuple(range(schema.ndim)),
        codec=codec,
        fill_value=_fill(schema, asked, notes),
        attributes=adapt_attributes(schema.attributes, notes, schema.dtype),
        axes=_axes(schema, notes),
        hdf5=True,
        unlimited=_unlimited(schema, chunks, notes),
        notes=tuple(dict.fromkeys(notes)),
    )


def _times(schema: Schema, asked: Collection[str]) -> Schema:
    """Dates and durations as integers, with the CF attributes that describe them."""
    dtype, added = schema.dtype, time_attributes(schema.dtype)
    if added is None or "dtype" in asked:
        unit = "" if added else f", and CF has no unit of {np.datetime_data(dtype)}"
        raise UsageError(
            f"HDF5 has no dates or durations such as {dtype}{unit}: convert to zarr first, with "
            f"{option('dtype', f'{dtype.kind}8[s]')} for example; dates from D to ns then become int64 with CF "
            "attributes here"
        )
    replaced = [name for name in added if name in schema.attributes]
    notes = [f"attribute {name!r} was replaced by that of the dates" for name in replaced]
    told = " ".join(value for value in added.values() if isinstance(value, str))
    notes.append(f"{dtype} became int64 with CF attributes ({told}), NaT is {NAT}: HDF5 has no such type")
    fill = schema.fill_value
    return replace(
        schema,
        dtype=np.dtype(np.int64).newbyteorder(dtype.byteorder),
        fill_value=None if fill is None else np.array(fill, dtype.newbyteorder("=")).view(np.int64)[()],
        attributes={**schema.attributes, **added},
        notes=(*schema.notes, *notes),
    )


def is_whole(shape: tuple[int, ...], chunks: tuple[Cut, ...]) -> bool:
    """Whether one chunk covers the array; without a codec it is then stored as one run of bytes."""
    return all(isinstance(c, int) and c >= n for n, c in zip(shape, chunks, strict=True))


# -------------------------------------------------------------------- chunks
def _chunks(schema: Schema, asked: Collection[str], notes: list[str]) -> tuple[Cut, ...]:
    grid = Grid.of(schema.shape, schema.chunks)
    chunks: list[int] = []
    for axis, (cut, length) in enumerate(zip(schema.chunks, schema.shape, strict=True)):
        step = cut if isinstance(cut, int) else grid.axes[axis].step
        if step is None:
            step = grid.axes[axis].largest
            if "chunks" in asked:
                text = chunk_text([cut])
                raise UsageError(f"HDF5 needs chunks of one length per axis, not {text}: use {step}")
            notes.append(f"irregular chunks on axis {axis} became regular ones of {step}")
        # A dataset of fixed size cannot have chunks longer than its axes.
        chunks.append(min(max(step, 1), max(length, 1)))
    return tuple(chunks)


def _check_chunk(chunks: tuple[Cut, ...], itemsize: int) -> None:
    size = prod(c if isinstance(c, int) else max(c) for c in chunks) * itemsize
    if size > CHUNK_LIMIT:
        raise UsageError(
            f"a chunk of {chunk_text(chunks)} × {itemsize} bytes is {size:,} bytes, "
            f"HDF5's limit is {CHUNK_LIMIT:,}: use at most {CHUNK_LIMIT // itemsize:,} elements per chunk"
        )


# -------------------------------------------------------------------- codec
def _codec(schema: Schema, asked: Collection[str], notes: list[str]) -> Codec:
    if not schema.codec:
        return schema.codec
    if not schema.shape:
        if "codec" in asked:
            raise UsageError(f"HDF5 cannot encode an array without axes with {schema.codec}; use none")
        notes.append(f"codec {schema.codec} is not kept: HDF5 does not encode arrays without axes")
        return Codec()
    # Few programs can read zstd, so it takes the place of no other codec by itself.
    stages = [
        _stage(stage, schema.dtype.itemsize, zstd="codec" in asked or schema.hdf5) for stage in schema.codec.stages
    ]
    names = [stage.name for stage in stages if stage is not None]
    if None not in stages and len(set(names)) == len(names) and len(_COMPRESSORS & set(names)) <= 1:
        codec = Codec(tuple(stage for stage in stages if stage is not None))
        if not is_ours(pipeline := pipeline_of(codec, schema.dtype.itemsize)):
            notes.append(library_note("written", pipeline))
        if "zstd" in names:
            notes.append(_PLUGIN)
        return codec
    if "codec" in asked:
        raise UsageError(f"HDF5 cannot hold codec {schema.codec}: it has {_HELD}")
    notes.append(f"codec {schema.codec} became {USUAL}: HDF5 has {_HELD}")
    return USUAL


def _stage(stage: Stage, itemsize: int, *, zstd: bool) -> Stage | None:
    """A stage as an HDF5 filter, or None; `zstd` says whether that may be one."""
    settings = dict(stage.settings)
    if stage.name == "zstd":
        return stage if zstd and set(settings) == {"level"} else None
    if stage.name in ("gzip", "zlib"):
        level = settings.pop("level", 6)
        # -1 is zlib's own default, which is 6.
        level = 6 if level == -1 else level
        return Stage.of("gzip", level=level) if level in range(10) and not settings else None
    if stage.name == "shuffle" and settings.pop("elementsize", itemsize) != itemsize:
        return None
    return Stage.of(stage.name) if stage.name in _STAGES and not settings else None


# -------------------------------------------------------------------- metadata
def _unlimited(schema: Schema, chunks: tuple[Cut, ...], notes: list[str]) -> tuple[bool, ...]:
    """The axes along which others may append: only arrays of chunks can grow."""
    if not any(schema.unlimited):
        return ()
    if can_grow(chunks, schema.dtype.itemsize):
        return schema.unlimited
    notes.append("it cannot grow along its unlimited axes: HDF5 would need chunks of at most 4 GiB")
    return ()


def can_grow(chunks: tuple[Cut, ...], itemsize: int) -> bool:
    """Whether a dataset can have its chunks, also where it would be one run of bytes without unlimited axes."""
    whole = [cut for cut in chunks if isinstance(cut, int)]
    return len(whole) == len(chunks) and all(whole) and prod(whole) * itemsize <= CHUNK_LIMIT


def _fill(schema: Schema, asked: Collection[str], notes: list[str]) -> Any:
    """The fill value in the dataset's type; HDF5 fills with zero if none is given."""
    dtype, given = schema.dtype, schema.fill_value
    zero = np.zeros((), dtype)[()]
    if given is None:
        return zero
    try:
        if np.iscomplexobj(given) and dtype.kind != "c":
            raise TypeError
        with np.errstate(all="ignore"):
            fill = np.array(given, dtype) if isinstance(given, np.generic) else np.array(given).astype(dtype)
            same = fill.shape == () and bool(fill == given or (fill != fill and given != given))  # noqa: PLR0124 - NaN
    except (TypeError, ValueError, ArithmeticError):
        same = False
    problem = _fill_problem(fill) if same else f"it is not a value of type {dtype}"
    if not problem:
        return fill[()]
    if "fill_value" in asked:
        raise UsageError(f"fill value {checks.show(given)} is not possible: {problem}")
    notes.append(f"fill value {checks.show(given)} became {'empty' if dtype.kind in 'SV' else 0}: {problem}")
    return zero


def _fill_problem(fill: npt.NDArray[Any]) -> str:
    """The reason why HDF5 or h5py does not keep a fill value of the dataset's type, or None."""
    if fill.nbytes > MOST_FILL_BYTES and any(fill.tobytes()):
        return f"it has {fill.nbytes:,} bytes, HDF5 keeps at most {MOST_FILL_BYTES:,}"
    if fill.dtype.kind == "S" and b"\0" in fill.item():
        return "h5py ends it at the first NUL byte"
    return ""


def _axes(schema: Schema, notes: list[str]) -> tuple[str, ...] | None:
    if not schema.axes:
        return None
    if all(name and _is_text(name) for name in schema.axes):
        return schema.axes
    notes.append(f"the axis names {checks.show(schema.axes)} are not kept: HDF5 needs one for each axis")
    return None


def adapt_attributes(given: Mapping[str, Any], notes: list[str], dtype: np.dtype[Any] | None = None) -> dict[str, Any]:
    """The attributes in forms that h5py can write; nested values become JSON text. `dtype` is that of their array."""
    kept: dict[str, Any] = {}
    attributes, ties = without_ties(given)
    notes += ties
    for name, value in attributes.items():
        if not name or not _is_text(name):
            notes.append(f"attribute {name!r} is not kept: HDF5 needs a name of Unicode text without NUL")
        elif value is None:
            notes.append(f"attribute {name!r} is not kept: HDF5 has no null value")
        elif name == FILL_VALUE and dtype is not None and (fill := fill_attribute(value, dtype)) is not None:
            kept[name] = value if _is_of(value, dtype) else element(fill, dtype).reshape(1)
            if kept[name] is not value:
                notes.append(f"attribute {name!r} became {fill!s}, a number of the array's type, as NetCDF requires")
        elif isinstance(value, bytes) and value.endswith(b"\0"):
            # NetCDF counts them; in HDF5 they are padding.
            kept[name] = np.bytes_(value.rstrip(b"\0"))
        elif _is_plain(value):
            kept[name] = value
        elif isinstance(value, np.datetime64 | np.timedelta64):
            kept[name] = str(value)
            notes.append(f"attribute {name!r} became text: HDF5 has no dates")
        else:
            plain, problems = to_json({name: value})
            if name in plain:
                kept[name] = json.dumps(plain[name])
                notes.append(f"attribute {name!r} became JSON text: HDF5 holds numbers, text and arrays of them")
            else:
                notes.extend(problems)
    return kept


def _is_of(value: Any, dtype: np.dtype[Any]) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.dtype.newbyteorder("=") == dtype.newbyteorder("=")


def _is_text(text: str) -> bool:
    """Whether HDF5 holds a text unchanged."""
    return is_text(text) and "\0" not in text


def _is_plain(value: Any) -> bool:
    """Whether h5py writes a value unchanged: a number, a text, or an array of one kind of them."""
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "U":
            return all(map(_is_text, value.ravel().tolist()))
        return value.dtype.kind in "biufcSV" and value.dtype.fields is None
    if isinstance(value, bytes):
        return not value.endswith(b"\0")
    if isinstance(value, list | tuple):
        return _is_plain_list(list(value))
    return isinstance(value, float | complex) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 64)


def _is_plain_list(value: list[Any]) -> bool:
    leaves = list(_leaves(value))
    if not all(isinstance(leaf, str | bool | int | float | np.bool_ | np.integer | np.floating) for leaf in leaves):
        return False
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return False
    if any(isinstance(leaf, str) for leaf in leaves):
        return array.dtype.kind == "U" and all(isinstance(leaf, str) and _is_text(leaf) for leaf in leaves)
    if array.dtype.kind == "f" and leaves and all(isinstance(leaf, int) for leaf in leaves):
        return False
    # Integers among floats must not be rounded; NaN is not equal to itself.
    pairs = zip(array.ravel().tolist(), leaves, strict=True)
    return array.dtype.kind in "biuf" and all(one == other or one != one for one, other in pairs)  # noqa: PLR0124


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value
