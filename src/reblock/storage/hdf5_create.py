"""A new dataset in an HDF5 file, with its filters, fill value, attributes and room for its chunks."""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.errors import ReblockError
from reblock.model.schema import Schema
from reblock.storage.hdf5_adapt import is_whole
from reblock.storage.hdf5_file import library
from reblock.storage.hdf5_filters import is_ours, pipeline_of, set_filters
from reblock.storage.hdf5_metadata import Stored, write_attributes


def create_dataset(file: Any, name: str, schema: Schema) -> Stored:
    """Make it; what the store has to know of it."""
    h5py = library()
    pipeline = pipeline_of(schema.codec, schema.dtype.itemsize)
    chunked = bool(pipeline) or not is_whole(schema.shape, schema.chunks)
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    # The same run twice gives the same file.
    dcpl.set_obj_track_times(False)
    if schema.fill_value is not None:
        dcpl.set_fill_value(np.asarray(schema.fill_value, schema.dtype))
    if chunked:
        dcpl.set_chunk(schema.chunks)
    set_filters(dcpl, pipeline)
    if not pipeline:
        dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        # Every element is written once, by the engine.
        dcpl.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple(schema.shape) if schema.shape else h5py.h5s.create(h5py.h5s.SCALAR)
    kind = h5py.h5t.py_create(schema.dtype, logical=True)
    dataset = h5py.Dataset(h5py.h5d.create(file.id, None, kind, space, dcpl))
    parent, _, last = name.rpartition("/")
    # Groups made here have no times of creation; those that HDF5 makes on the way would.
    (file.require_group(parent) if parent else file)[last] = dataset
    write_attributes(dataset, schema.attributes)
    for dim, label in zip(dataset.dims, schema.axes or (), strict=False):
        dim.label = label
    offset = None if chunked else dataset.id.get_offset()
    if offset is None and not chunked and 0 not in schema.shape:
        raise ReblockError(f"HDF5 did not allocate {name} at its creation")
    return Stored(chunked=chunked, offset=offset, pipeline=pipeline, direct=is_ours(pipeline))
