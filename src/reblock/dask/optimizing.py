"""Optimises a graph: finds loads and stores, plans buffers, rewrites the graph, and lets dask do the rest."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reblock.api.machine import DEFAULT_MEMORY, parse_memory
from reblock.dask.buffers import AUTO, BufferPlan, check_strategy
from reblock.dask.chain import chain_buffers
from reblock.dask.graphs import finish, flat_keys, plain_graph, settled_graph
from reblock.dask.loads import find_loads
from reblock.dask.rewrite import Rewritten, rewrite_loads
from reblock.dask.rewrite_stores import rewrite_stores
from reblock.dask.stores import find_stores
from reblock.dask.tally import Channel, Run

#: The share of the budget that a reader or writer takes beside the buffers, and its bounds.
_STAGING_PART, _LEAST_STAGING, _MOST_STAGING = 8, 64 << 10, 64 << 20
#: Where buffers cannot be chained, this many of them fit into memory.
_TOGETHER = 4


def optimize_graph(
    dsk: Mapping[Any, Any],
    keys: Any,
    *,
    memory: str | int = DEFAULT_MEMORY,
    strategy: str = AUTO,
    processes: int = 1,
    channel: Channel | None = None,
    **_: Any,
) -> Any:
    """A graph of dask.array that reads and writes files in few large pieces.

    Loads of nearby boxes of a stored array become pieces of a buffer, which is read once; chunks that are stored
    become parts of a buffer, which is written at once. dask's own optimisations are applied as well. A graph that
    would not gain is only optimised by dask.

    Parameters
    ----------
    dsk
        The graph, as `array_optimize` of dask's configuration is called with it.
    keys
        The keys that are wanted, in nested lists.
    memory
        The budget for the buffers of one process, all its threads together.
    strategy
        `auto`, or one of `naive`, `clustered`, `multiple`, `keep`.
    processes
        Worker processes that may read at the same time.
    channel
        Where to report what was done.

    Examples
    --------
    >>> import dask, dask.array as da, numpy, tempfile, os, reblock
    >>> from functools import partial
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.arange(4096.0).reshape(64, 64))
    >>> x = da.from_array(reblock.open(path), chunks=(8, 8))
    >>> with dask.config.set(array_optimize=partial(optimize_graph, memory="1MiB")):
    ...     float(x.sum().compute())
    8386560.0
    """
    check_strategy(strategy)
    return optimized(dsk, keys, make_run(memory, channel), strategy, processes)[0]


def make_run(memory: str | int, channel: Channel | None = None) -> Run:
    """The limits of one graph."""
    budget = parse_memory(memory)
    staging = min(max(budget // _STAGING_PART, _LEAST_STAGING), _MOST_STAGING)
    return Run(max(budget - staging, 1), staging, channel)


def optimized(
    dsk: Mapping[Any, Any], keys: Any, run: Run, strategy: str, processes: int = 1
) -> tuple[Any, Rewritten | None]:
    """The graph with buffers, optimised by dask, and what was done; a failure of ours leaves the graph as it is."""
    try:
        with _without_collection():
            done, made = _with_buffers(dsk, keys, run, strategy, processes)
    except Exception as error:  # noqa: BLE001 - a computation must not fail because of its optimisation
        if run.channel is not None:
            run.channel.post(graphs=1, notes=[f"a graph was left as it is: {type(error).__name__}: {error}"])
        return finish(dsk, keys), None
    if run.channel is not None:
        run.channel.post(graphs=1, arrays=[one.to_json() for one in made.arrays], notes=made.notes)
    return (finish(dsk, keys) if done is None else done), made


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for garbage while very many small objects are made that all stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _with_buffers(
    dsk: Mapping[Any, Any], keys: Any, run: Run, strategy: str, processes: int
) -> tuple[Any | None, Rewritten]:
    flat = flat_keys(keys)
    graph = plain_graph(dsk, flat)
    loads, stores = find_loads(graph, flat), find_stores(graph)
    order = {key: place for place, key in enumerate(graph)} if loads.arrays else {}
    # Chunks that wait to be written are in memory together with a buffer that is read.
    room = run.memory_bytes
    if stores.arrays and rewrite_loads(graph, loads, order, run, strategy, memory_bytes=room // 2).changed:
        room //= 2
    written, outcomes = rewrite_stores(graph, stores, run, strategy, memory_bytes=room)
    if not any(isinstance(one.found, BufferPlan) for one in outcomes):
        room = run.memory_bytes
    for share in (1, _TOGETHER):
        made = rewrite_loads(written, loads, order, run, strategy, memory_bytes=room // share)
        made.arrays += outcomes
        made.notes += stores.notes
        if not made.changed:
            break
        done = settled_graph(finish(made.graph, keys), flat)
        largest = max((link.nbytes for link in made.links), default=0)
        ahead = processes * (2 if 2 * largest <= room else 1)
        if share > 1 or chain_buffers(done, flat, made.links, memory_bytes=run.memory_bytes, ahead=ahead):
            return done, made
    return None, made
