"""Arrays by zarr-python, to compare with."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from reblock.model.schema import Schema
from reblock.model.store import Format
from reblock.testing.arrays import Array, same_bits
from reblock.testing.reference_io import write_array


def by_zarr(path: Path, data: Array, **options: Any) -> str:
    """An array that zarr-python writes, every chunk of it; it warns of much that we read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"chunks": tuple(max(n // 2, 1) for n in data.shape), "compressors": None, **options}
        array = zarr.create_array(
            path, shape=data.shape, dtype=data.dtype, config={"write_empty_chunks": True}, **options
        )
        array[...] = data
    return str(path)


def zarr_reads(path: Path | str, inner: str = "", *, quiet: bool = False) -> Array:
    """What zarr-python makes of an array; of what we write it must not complain."""
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        return np.asarray(zarr.open_array(str(path), path=inner or None, mode="r")[...])


def by_us(format: Format, path: Path, schema: Schema, data: Array, inner: str = "", asked: Collection[str] = ()) -> str:
    schema = format.adapt(schema, asked)
    store = format.create(str(path), inner, schema)
    write_array(store, data)
    store.commit()
    return str(path)


def same_values(one: Array, other: Array) -> bool:
    """Whether every bit is the same, byte order aside."""
    one, other = (
        np.ascontiguousarray(a) if a.dtype.isnative else a.byteswap().view(a.dtype.newbyteorder()) for a in (one, other)
    )
    return same_bits(one, other)


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON document."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
