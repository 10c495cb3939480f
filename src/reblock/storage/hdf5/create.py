"""Create a dataset in an HDF5 file, with its filters, fill value, attributes and space for its chunks.

The new dataset is read back and compared with the request before anything is written: some calls of h5py have passed
the wrong memory to HDF5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.errors import ReblockError
from reblock.model.schema import Schema, element
from reblock.storage.hdf5.adapt import MOST_FILL_BYTES, is_whole
from reblock.storage.hdf5.file import library
from reblock.storage.hdf5.filters import LEVELS, Pipeline, is_ours, pipeline_of, read_pipeline, set_filters
from reblock.storage.hdf5.metadata import Stored, read_fill, write_attributes


def create_dataset(file: Any, name: str, schema: Schema, *, unlimited: tuple[bool, ...] = ()) -> Stored:
    """Create a dataset; returns what the store needs to know about it."""
    dataset, stored = make_dataset(file, name, schema, unlimited=unlimited)
    write_attributes(dataset, schema.attributes)
    for dim, label in zip(dataset.dims, schema.axes or (), strict=False):
        dim.label = label
    return stored


def make_dataset(
    file: Any, name: str, schema: Schema, *, unlimited: tuple[bool, ...] = (), ordered: bool = False
) -> tuple[Any, Stored]:
    """Create a dataset without attributes; returns it, and what its store needs to know about it.

    Others may append along `unlimited` axes, so it is chunked if there is one. With `ordered`, the file remembers the
    order of its attributes.
    """
    pipeline = pipeline_of(schema.codec, schema.dtype.itemsize)
    chunked = _is_chunked(schema) or any(unlimited)
    dataset = _make(file, name, schema, unlimited, ordered=ordered)
    _check(dataset, name, schema, chunked=chunked)
    offset = None if chunked else dataset.id.get_offset()
    if offset is None and not chunked and 0 not in schema.shape:
        raise ReblockError(f"HDF5 did not allocate {name} when it was created")
    return dataset, Stored(chunked=chunked, offset=offset, pipeline=pipeline, direct=is_ours(pipeline))


def _is_chunked(schema: Schema) -> bool:
    return bool(schema.codec) or not is_whole(schema.shape, schema.chunks)


def _make(file: Any, name: str, schema: Schema, unlimited: tuple[bool, ...], *, ordered: bool) -> Any:
    """Create the dataset without attributes."""
    h5py = library()
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    # Without times, the same run always makes the same file.
    dcpl.set_obj_track_times(False)
    if ordered:
        dcpl.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    _set_fill(dcpl, schema)
    if _is_chunked(schema) or any(unlimited):
        dcpl.set_chunk(schema.chunks)
    set_filters(dcpl, pipeline_of(schema.codec, schema.dtype.itemsize))
    if not schema.codec:
        dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        # The engine writes every element once, so HDF5 need not fill.
        dcpl.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    limits = tuple(h5py.h5s.UNLIMITED if free else n for n, free in zip(schema.shape, unlimited, strict=False))
    space = h5py.h5s.create_simple(schema.shape, limits or None) if schema.shape else h5py.h5s.create(h5py.h5s.SCALAR)
    kind = h5py.h5t.py_create(schema.dtype, logical=True)
    dataset = h5py.Dataset(h5py.h5d.create(file.id, None, kind, space, dcpl))
    parent, _, last = name.rpartition("/")
    # Groups created here have no creation times; those that HDF5 creates implicitly would.
    (file.require_group(parent) if parent else file)[last] = dataset
    return dataset


def _set_fill(dcpl: Any, schema: Schema) -> None:
    """Set the fill value; zero is HDF5's default, and is stored only if it is short."""
    fill = None if schema.fill_value is None else element(schema.fill_value, schema.dtype)
    if fill is None or (fill.nbytes > MOST_FILL_BYTES and not any(fill.tobytes())):
        return
    if schema.dtype.kind == "S":
        # h5py would use the bytes of a fixed-length text as an address. It needs an object, like the one that its own
        # create_dataset makes; HDF5 converts it.
        dcpl.set_fill_value(np.array(fill.item(), library().string_dtype("ascii")))
    else:
        dcpl.set_fill_value(fill)


def _settings(pipeline: Pipeline) -> list[tuple[int, int]]:
    """The requested part of the filters' settings; HDF5 adds settings to some filters."""
    return [(one.code, one.value if one.code in LEVELS else 0) for one in pipeline]


def _check(dataset: Any, name: str, schema: Schema, *, chunked: bool) -> None:
    """Raise ReblockError if the dataset differs from the request."""
    dcpl, itemsize = dataset.id.get_create_plist(), schema.dtype.itemsize
    fill = bytes(itemsize) if schema.fill_value is None else element(schema.fill_value, schema.dtype).tobytes()
    pairs = {
        "shape": (dataset.shape, schema.shape),
        "dtype": (dataset.dtype.str, schema.dtype.str),
        "chunks": (dataset.chunks, schema.chunks if chunked else None),
        "filters": (
            _settings(read_pipeline(dcpl, itemsize, name)),
            _settings(pipeline_of(schema.codec, itemsize)),
        ),
        "fill value": (element(read_fill(dataset, dcpl, schema.dtype), schema.dtype).tobytes(), fill),
    }
    if wrong := [key for key, (made, wanted) in pairs.items() if made != wanted]:
        made, wanted = pairs[wrong[0]]
        raise ReblockError(f"{name}: HDF5 made {wrong[0]} {made!r:.80}, not {wanted!r:.80}, so nothing was written")
