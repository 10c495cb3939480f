"""Switches buffers on: for a block of code, for a whole process, or for some collections."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dask
from dask.base import is_dask_collection
from dask.highlevelgraph import HighLevelGraph

from reblock.api.machine import DEFAULT_MEMORY, parse_memory
from reblock.dask.buffers import AUTO, check_strategy
from reblock.dask.cluster import Optimizer, check_workers, count_workers
from reblock.dask.optimizing import make_run, optimized
from reblock.dask.report import BufferReport
from reblock.dask.tally import Collector, Records
from reblock.errors import UsageError

_KEY = "array_optimize"


@contextmanager
def io(*, memory: str | int = DEFAULT_MEMORY, strategy: str = AUTO) -> Iterator[BufferReport]:
    """Read and write with buffers whatever is computed inside a `with` block.

    Works for compute, persist, `da.store`, `to_zarr`, `to_hdf5` and xarray on dask, with every scheduler. With
    distributed, use it where the client is: it checks that the workers have reblock.

    Parameters
    ----------
    memory
        The budget for the buffers of one process, all its threads together.
    strategy
        `auto`, or one of `naive`, `clustered`, `multiple`, `keep`.

    Returns
    -------
    BufferReport
        What was planned and counted so far; it is complete when the block has ended.

    Examples
    --------
    >>> import dask.array as da, numpy, tempfile, os, reblock.dask
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.arange(4096.0).reshape(64, 64))
    >>> x = da.from_array(reblock.open(path), chunks=(8, 8))
    >>> with reblock.dask.io(memory="2MiB") as report:
    ...     float(x.sum().compute())
    8386560.0
    >>> report
    <reblock BufferReport: 1 array, 1 buffer, 576 seeks -> 1>
    """
    setting, report = _setting(memory, strategy)
    with dask.config.set(setting):
        yield report


def enable(*, memory: str | int = DEFAULT_MEMORY, strategy: str = AUTO) -> BufferReport:
    """Read and write with buffers from now on, in the whole process; `disable` switches it off.

    Parameters
    ----------
    memory
        The budget for the buffers of one process, all its threads together.
    strategy
        `auto`, or one of `naive`, `clustered`, `multiple`, `keep`.

    Returns
    -------
    BufferReport
        What was planned and counted so far.

    Examples
    --------
    >>> import reblock.dask
    >>> report = reblock.dask.enable(memory="512MiB")
    >>> reblock.dask.disable()
    """
    setting, report = _setting(memory, strategy)
    dask.config.set(setting)
    return report


def disable() -> None:
    """Undo `enable`.

    Examples
    --------
    >>> import reblock.dask
    >>> reblock.dask.disable()
    """
    if isinstance(dask.config.get(_KEY, None), Optimizer):
        dask.config.config.pop(_KEY, None)


def optimize(*collections: Any, memory: str | int = DEFAULT_MEMORY, strategy: str = AUTO) -> tuple[Any, ...]:
    """The same collections with buffers in their graphs, optimised here and now and on this machine.

    Collections that are computed together share buffers, as with `dask.optimize`. Call it last: what is made of a
    result afterwards, such as a slice of it, still reads its buffers whole.

    Parameters
    ----------
    collections
        Arrays of dask, or xarray objects on dask.
    memory
        The budget for the buffers of one process, all its threads together.
    strategy
        `auto`, or one of `naive`, `clustered`, `multiple`, `keep`.

    Returns
    -------
    tuple
        One collection for each given one.

    Examples
    --------
    >>> import dask.array as da, numpy, tempfile, os, reblock.dask
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.arange(4096.0).reshape(64, 64))
    >>> x = da.from_array(reblock.open(path), chunks=(8, 8))
    >>> (y,) = reblock.dask.optimize(x.sum(), memory="2MiB")
    >>> float(y.compute())
    8386560.0
    """
    check_strategy(strategy)
    graph, keys = _joined(collections)
    done = optimized(graph, keys, make_run(memory), strategy, count_workers())[0]
    found = []
    for one in collections:
        rebuild, args = one.__dask_postpersist__()
        found.append(rebuild(done, *args))
    return tuple(found)


def explain(*collections: Any, memory: str | int = DEFAULT_MEMORY, strategy: str = AUTO) -> BufferReport:
    """What buffers would do for some collections; nothing is computed.

    Parameters
    ----------
    collections
        Arrays of dask, or xarray objects on dask.
    memory
        The budget for the buffers of one process, all its threads together.
    strategy
        `auto`, or one of `naive`, `clustered`, `multiple`, `keep`.

    Returns
    -------
    BufferReport
        Files, buffers, seeks and bytes, with and without buffers; a picture in notebooks.

    Examples
    --------
    >>> import dask.array as da, numpy, tempfile, os, reblock.dask
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.arange(4096.0).reshape(64, 64))
    >>> x = da.from_array(reblock.open(path), chunks=(8, 8))
    >>> reblock.dask.explain(x, memory="2MiB")
    <reblock BufferReport: 1 array, 1 buffer, 576 seeks -> 1>
    """
    check_strategy(strategy)
    graph, keys = _joined(collections)
    collector = Collector()
    optimized(graph, keys, replace(make_run(memory), channel=collector.channel), strategy)
    records = collector.records()
    return BufferReport(fixed=Records(arrays=records.arrays, notes=records.notes, graphs=records.graphs))


def _setting(memory: str | int, strategy: str) -> tuple[dict[str, Any], BufferReport]:
    """What to set in dask's configuration, and the report."""
    check_strategy(strategy)
    budget = parse_memory(memory)
    if dask.config.get("array.query-planning", False):
        warnings.warn(
            "array.query-planning is on: expression arrays bypass graph optimisation, so that buffers are not used; "
            "switch it off, with dask.config.set({'array.query-planning': False}) before dask.array is imported",
            stacklevel=4,
        )
    collector = Collector()
    processes = check_workers()
    if not processes:
        collector.channel.post(notes=["the scheduler or the workers do not have reblock, so that no buffers are used"])
        return {}, BufferReport(collector)
    options = {"memory": budget, "strategy": strategy, "processes": processes}
    return {_KEY: Optimizer(options, collector.channel)}, BufferReport(collector)


def _joined(collections: Sequence[Any]) -> tuple[HighLevelGraph, list[Any]]:
    """One graph of all collections, and the keys of each."""
    for one in collections:
        _check_collection(one)
    graph = HighLevelGraph.merge(*(one.__dask_graph__() for one in collections))
    return graph, [one.__dask_keys__() for one in collections]


def _check_collection(one: Any) -> None:
    if hasattr(one, "expr") and not hasattr(one, "__dask_postpersist__"):
        raise UsageError(_expression(one))
    if not is_dask_collection(one):
        raise UsageError(f"a collection of dask is needed, not {type(one).__module__}.{type(one).__qualname__}")
    if type(one).__module__.partition(".")[0] == "dask_array" or hasattr(one, "expr"):
        raise UsageError(_expression(one))


def _expression(one: Any) -> str:
    return (
        f"{type(one).__module__}.{type(one).__qualname__} is an expression array, which bypasses graph optimisation: "
        "buffers need an array of dask.array, with array.query-planning switched off"
    )
