"""Reading and writing without thinking of graphs: arrays from files, files from arrays, new chunks through scratch."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import replace
from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np

from reblock.api.array import ArraySource, open_array
from reblock.api.machine import DEFAULT_MEMORY, parse_memory
from reblock.api.request import parse_codec, target_schema
from reblock.dask.buffers import AUTO
from reblock.dask.cluster import check_path
from reblock.dask.report import BufferReport
from reblock.dask.switch import io
from reblock.dask.targets import new_array
from reblock.errors import UsageError
from reblock.geometry.grid import Cut
from reblock.geometry.notation import Chunks, parse_chunks
from reblock.model import Codec, Schema
from reblock.storage import registry
from reblock.storage.location import Where


def from_array(source: ArraySource, *, chunks: Any = "auto", name: str | None = None) -> da.Array:
    """An array of dask that reads a stored array.

    Parameters
    ----------
    source
        A path or URL, or an object that `reblock.open` takes.
    chunks
        Chunks as dask takes them; by default some whole chunks or shards of the stored array each.
    name
        Name of the array in graphs; by default it follows from the path and the state of its files.

    Returns
    -------
    dask.array.Array
        The array; nothing is read yet.

    Examples
    --------
    >>> import numpy, tempfile, os, reblock.dask
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.arange(4096.0).reshape(64, 64))
    >>> x = reblock.dask.from_array(path, chunks=(8, 8))
    >>> float(x[0].sum().compute())
    2016.0
    """
    array = open_array(source, None, ())
    stored = array.layout.objects.largest_stored
    cuts = da.core.normalize_chunks(chunks, array.shape, dtype=array.dtype, previous_chunks=stored)
    if name is None:
        token = (array.store.location, array.files) if array.files else uuid4().hex
        name = f"reblock-{da.core.tokenize(token, cuts)}"
    return da.from_array(array, chunks=cuts, name=name, asarray=True)


def store(
    x: da.Array,
    target: Where,
    *,
    chunks: Chunks | None = None,
    shards: Chunks | None = None,
    codec: str | Codec | None = None,
    memory: str | int = DEFAULT_MEMORY,
    strategy: str = AUTO,
    overwrite: bool = False,
    to_format: str | None = None,
) -> BufferReport:
    """Compute an array and store it in a new file.

    Every task writes whole chunks, or whole shards, whatever the chunks of the array are: no two tasks change the same
    one. The array is built beside its place and gets its name when it is complete.

    Parameters
    ----------
    x
        An array of dask.
    target
        A path or URL; its ending says the format.
    chunks
        Chunks of the new array; by default those of `x`, if they are regular.
    shards
        Shards of the new array, for Zarr.
    codec
        How chunks are encoded; by default not at all.
    memory
        The budget for the buffers of one process, all its threads together.
    strategy
        How buffers for reading are chosen, as in `io`.
    overwrite
        Whether an existing array is replaced.
    to_format
        The format, if the ending of the path does not say.

    Returns
    -------
    BufferReport
        What was planned and counted.

    Examples
    --------
    >>> import dask.array as da, numpy, tempfile, os, reblock, reblock.dask
    >>> path = os.path.join(tempfile.mkdtemp(), "x.zarr")
    >>> _ = reblock.dask.store(da.arange(100, chunks=7), path, chunks=10)
    >>> int(reblock.open(path)[42])
    42
    """
    _check_array(x)
    budget = parse_memory(memory)
    where = registry.locate(target)
    kind = registry.for_target(where.path, to_format)
    schema = _schema(x, kind, chunks, shards, codec)
    check_path(where.path)
    made = new_array(where, kind, schema, overwrite=overwrite, memory_bytes=budget)
    with io(memory=budget, strategy=strategy) as report, made as (array, cuts):
        da.store(x.rechunk(cuts), array, lock=False)
    return report


def rechunk(
    x: da.Array,
    chunks: Any,
    *,
    memory: str | int = DEFAULT_MEMORY,
    scratch: Where | None = None,
    strategy: str = AUTO,
) -> da.Array:
    """An array with other chunks, through an array on disk.

    `x` is computed now and stored in a scratch folder with the new chunks. The folder is removed when the last
    collection that uses it is gone.

    Parameters
    ----------
    x
        An array of dask.
    chunks
        New chunks, as dask takes them.
    memory
        The budget for the buffers of one process, all its threads together.
    scratch
        A folder in which the stored array is kept; by default a temporary one that is removed.
    strategy
        How buffers for reading are chosen, as in `io`.

    Returns
    -------
    dask.array.Array
        The array; its chunks are read from scratch when they are needed.

    Examples
    --------
    >>> import dask.array as da, reblock.dask
    >>> x = reblock.dask.rechunk(da.ones((100, 100), chunks=(1, 100)), (100, 10))
    >>> x.chunksize, float(x.sum().compute())
    ((100, 10), 10000.0)
    """
    cuts = da.core.normalize_chunks(chunks, x.shape, dtype=x.dtype, previous_chunks=x.chunks)
    folder = os.fspath(scratch) if scratch is not None else tempfile.mkdtemp(prefix="reblock-rechunk-")
    path = os.path.join(folder, f"{uuid4().hex}.zarr")
    try:
        lengths = [max(max(one, default=1), 1) for one in cuts]
        store(x, path, chunks=lengths, memory=memory, strategy=strategy)
        array = open_array(path, None, ())
    except BaseException:
        if scratch is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if scratch is None:
        # The graph of every collection that uses the array holds this object.
        weakref.finalize(array, shutil.rmtree, folder, ignore_errors=True)
    return da.from_array(array, chunks=cuts, name=f"reblock-{uuid4().hex}", asarray=True)


def _check_array(x: Any) -> None:
    if not isinstance(x, da.Array):
        raise UsageError(f"an array of dask is needed, not {type(x).__module__}.{type(x).__qualname__}")
    if any(np.isnan(n) for n in x.shape):
        raise UsageError("the array has chunks of unknown size: call x.compute_chunk_sizes() first")


def _schema(x: da.Array, kind: Any, chunks: Chunks | None, shards: Chunks | None, codec: str | Codec | None) -> Schema:
    default: list[Cut] = [max(max(one, default=1), 1) for one in x.chunks]
    inner = _lengths(chunks, x.shape, default, "chunks") if chunks is not None else tuple(default)
    outer = None if shards is None else tuple(_lengths(shards, x.shape, default, "shards"))
    asked = {name for name, given in (("chunks", chunks), ("shards", shards), ("codec", codec)) if given is not None}
    wanted = Schema(x.shape, x.dtype, inner, codec=parse_codec(codec) or Codec())
    return target_schema(kind, replace(wanted, shards=outer), asked, checksum=False)


def _lengths(chunks: Chunks, shape: tuple[int, ...], default: list[Cut], what: str) -> tuple[int, ...]:
    found = parse_chunks(chunks, shape, default)
    if not all(isinstance(one, int) for one in found):
        raise UsageError(f"{what} of a stored array are one length for each axis, not {chunks!r}")
    return tuple(min(int(one), max(n, 1)) for one, n in zip(found, shape, strict=True))  # type: ignore[arg-type]
