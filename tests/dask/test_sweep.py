"""Random graphs: with buffers, the result is that of plain dask, and buffers stay inside the budget."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import reblock
import reblock.dask
from reblock.dask.memory import MEMORY

Draw = Callable[[st.SearchStrategy[Any]], Any]
EXAMPLES = settings.default.max_examples

LENGTHS = st.integers(4, 24)
#: The most chunks along an axis; where tasks travel to other processes, thousands of them take minutes.
MOST_CHUNKS, FEW_CHUNKS = 24, 3


def stored_arrays(draw: Draw, folder: Path, *, portable: bool) -> list[Any]:
    """One to three arrays of one shape in files of several formats, as objects that may have to be picklable."""
    shape = tuple(draw(LENGTHS) for _ in range(draw(st.integers(1, 3))))
    found = []
    for number in range(draw(st.integers(1, 3))):
        values = (np.arange(np.prod(shape)).reshape(shape) * (number + 3) % 251).astype("u2")
        kind = draw(st.sampled_from(["contiguous", "chunked", "gzip", "zarr", "npy", "f-order"]))
        chunks = tuple(draw(st.integers(1, n)) for n in shape)
        path = folder / f"{number}"
        if kind == "zarr":
            found.append(zarr.create_array(f"{path}.zarr", data=values, chunks=chunks))
        elif kind in ("npy", "f-order"):
            np.save(f"{path}.npy", np.asfortranarray(values) if kind == "f-order" else values)
            found.append(reblock.open(f"{path}.npy"))
        else:
            options = {"contiguous": {}, "chunked": {"chunks": chunks}, "gzip": {"chunks": chunks, "compression": 1}}
            with h5py.File(f"{path}.h5", "w") as file:
                file.create_dataset("x", data=values, **options[kind])
            found.append(reblock.open(f"{path}.h5::x") if portable else h5py.File(f"{path}.h5")["x"])
    return found


def some_slice(draw: Draw, length: int) -> slice:
    start, stop = sorted(draw(st.tuples(st.integers(0, length), st.integers(0, length))))
    made = slice(start, max(stop, start + 1), draw(st.sampled_from([None, 1, 2, 3])))
    return slice(None, None, -1) if draw(st.integers(0, 9)) == 0 else made


def some_chunks(draw: Draw, shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    return tuple(draw(st.integers(max(-(-n // most), 1), max(n, 1))) for n in shape)


def grow(draw: Draw, x: da.Array, others: list[da.Array], most_chunks: int) -> da.Array:
    """One more operation."""
    kinds = ["add", "slice", "rechunk", "transpose", "where", "same"]
    if x.ndim:
        kinds += ["fancy", "sum", "overlap", "shared", "integer"]
    kind = draw(st.sampled_from(kinds))
    if kind == "add":
        other = draw(st.sampled_from(others))
        return x + other if other.shape == x.shape else x + 1
    if kind == "slice":
        return x[tuple(some_slice(draw, n) for n in x.shape)]
    if kind == "integer":
        return x[draw(st.integers(0, x.shape[0] - 1))] if x.shape[0] else x
    if kind == "fancy" and x.shape[0]:
        return x[draw(st.lists(st.integers(0, x.shape[0] - 1), min_size=1, max_size=5))]
    if kind == "rechunk":
        return x.rechunk(some_chunks(draw, x.shape, most_chunks))
    if kind == "transpose":
        return x.T
    if kind == "where":
        return da.where(x > 100, x, 0)
    if kind == "sum":
        return x.sum(axis=draw(st.integers(0, x.ndim - 1)), dtype="u2")
    if kind == "overlap" and all(x.shape):
        # A lambda would be pickled by cloudpickle, which cannot pickle datasets of h5py beside it, buffers or not.
        return da.map_overlap(partial(np.multiply, x.dtype.type(2)), x, depth=1, boundary="nearest", dtype=x.dtype)
    if kind == "shared" and x.shape[0] > 1:
        return x[1:] + x[:-1]
    return x + x


@contextmanager
def random_graph(draw: Draw, most_chunks: int, *, portable: bool) -> Iterator[tuple[da.Array, Path]]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        stored = stored_arrays(draw, Path(folder), portable=portable)
        shape = stored[0].shape
        chunks = [some_chunks(draw, shape, most_chunks) for _ in stored]
        arrays = [da.from_array(one, chunks=cut) for one, cut in zip(stored, chunks, strict=True)]
        made = draw(st.sampled_from(arrays))
        for _ in range(draw(st.integers(0, 4))):
            made = grow(draw, made, arrays, most_chunks)
        try:
            yield made, Path(folder)
        finally:
            for one in stored:
                if isinstance(one, h5py.Dataset):
                    one.file.close()


def compare(draw: Draw, *, most_chunks: int = FEW_CHUNKS, **config: Any) -> None:
    memory = draw(st.sampled_from([100_000, 150_000, 1 << 20]))
    strategy = draw(st.sampled_from(["auto", "auto", "clustered", "multiple", "keep", "naive"]))
    # A graph with a dataset of h5py cannot be sent to dask's own processes, unless buffers replace it by its path.
    portable = config.get("scheduler") == "processes"
    with random_graph(draw, most_chunks, portable=portable) as (made, folder):
        expected = made.compute(scheduler="sync")
        with dask.config.set(config), reblock.dask.io(memory=memory, strategy=strategy) as report:
            if draw(st.booleans()) and made.ndim and made.size:
                store(draw, made, expected, folder, threads=config.get("scheduler") == "threads")
            else:
                found = made.compute()
                np.testing.assert_array_equal(found, expected)
                assert np.asarray(found).dtype == np.asarray(expected).dtype
        assert not [note for note in report.notes if "left as it is" in note or "not read" in note]
        assert report.counted["peak_bytes"] <= memory
    assert MEMORY.used == 0


def store(draw: Draw, made: da.Array, expected: Any, folder: Path, *, threads: bool) -> None:
    """Store a result, now or later, and compare what is in the file."""
    later = draw(st.booleans())
    if threads and draw(st.booleans()):
        with h5py.File(folder / "out.h5", "w") as file:
            out = file.create_dataset("y", made.shape, made.dtype)
            done = da.store(made, out, compute=not later)
            if later:
                done.compute()
            np.testing.assert_array_equal(out[...], expected)
        return
    # Chunks of dask that are whole chunks of the file: others are a race that plain dask loses too.
    chunks = tuple(max(one) for one in made.chunks)
    out = zarr.create_array(folder / "out.zarr", shape=made.shape, dtype=made.dtype, chunks=chunks)
    done = da.store(made.rechunk(chunks), out, lock=False, compute=not later)
    if later:
        done.compute()
    np.testing.assert_array_equal(out[...], expected)


@settings(max_examples=max(EXAMPLES, 500) if EXAMPLES > 100 else EXAMPLES)
@given(data=st.data())
def test_random_graphs_with_threads(data: st.DataObject) -> None:
    compare(data.draw, most_chunks=MOST_CHUNKS, scheduler="threads", num_workers=3)


@pytest.mark.slow
@settings(max_examples=50 if EXAMPLES > 100 else 3)
@given(data=st.data())
def test_random_graphs_with_processes(data: st.DataObject) -> None:
    compare(data.draw, scheduler="processes", num_workers=2)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        warnings.catch_warnings(action="ignore"),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=50 if EXAMPLES > 100 else 3)
@given(data=st.data())
def test_random_graphs_with_distributed(client: Any, data: st.DataObject) -> None:
    with client.as_current():
        compare(data.draw)
