"""Graphs: one plain form of any graph of dask, in which loads and stores are tasks of their own.

dask fuses loads with what follows them, and stores with what precedes them, layer by layer. Here the layers that load
or store are written out first, so that the fusion of layers leaves them alone; everything else is fused as always.
What remains is done task by task when the graph has been rewritten.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, convert_legacy_graph
from dask.array import chunk, core
from dask.array.optimization import optimize
from dask.blockwise import Blockwise, fuse_roots, optimize_blockwise
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.utils import ensure_dict

#: The name of a node.
Key = Hashable
#: A graph in which every value is a node.
Graph = dict[Key, GraphNode]

#: How many names of one value may follow each other.
_MAX_ALIASES = 64

#: Functions that load from an array.
GETTERS: frozenset[Callable[..., Any]] = frozenset({core.getter, core.getter_nofancy, core.getter_inline})
#: Functions that take a part of a value.
SELECTORS: frozenset[Callable[..., Any]] = GETTERS | {operator.getitem, chunk.getitem}
#: Functions that store a chunk; which of them dask uses depends on its version.
STORERS: frozenset[Callable[..., Any]] = frozenset(
    getattr(core, name) for name in ("load_store_chunk", "store_chunk") if hasattr(core, name)
)


def flat_keys(keys: Any) -> list[Key]:
    """The keys of nested lists of keys."""
    found: list[Key] = list(flatten(keys if isinstance(keys, list | set) else [keys]))
    return found


def plain_graph(dsk: Mapping[Any, Any], keys: Collection[Key]) -> Graph:
    """The nodes of a graph that some keys need, in the order in which they are needed."""
    if isinstance(dsk, HighLevelGraph):
        layers = {name: _written_out(layer) for name, layer in dsk.layers.items()}
        high: Any = HighLevelGraph(layers, dsk.dependencies)
        high = fuse_roots(optimize_blockwise(high, keys=keys), keys=keys)
        dsk = ensure_dict(high.cull(set(keys)))
    graph: Graph = convert_legacy_graph(dsk)
    return {key: graph[key] for key in reachable(graph, keys)}


def _written_out(layer: Any) -> Any:
    if isinstance(layer, Blockwise) and _function(layer.task) in GETTERS | STORERS:
        written = MaterializedLayer(dict(layer), annotations=layer.annotations)
        written.collection_annotations = layer.collection_annotations
        return written
    return layer


def _function(task: Any) -> Any:
    func = getattr(task, "func", None)
    return func if isinstance(func, Hashable) else None


def finish(graph: Mapping[Any, Any], keys: Any) -> Any:
    """A graph after the optimisations of dask itself."""
    return optimize(graph, keys)


def settled_graph(dsk: Mapping[Any, Any], keys: Collection[Key]) -> Graph:
    """The nodes of an optimised graph, without those that only give another name to a node."""
    graph: Graph = dict(ensure_dict(dsk))
    if not all(isinstance(node, GraphNode) for node in graph.values()):
        graph = convert_legacy_graph(graph)
    wanted = set(keys)
    targets = {key: next(iter(node.dependencies)) for key, node in graph.items() if type(node) is Alias}
    uses = _count_uses(graph, set(targets.values()) - wanted)
    for key, target in targets.items():
        task: Any = graph.get(target)
        if uses.get(target) == 1 and type(task) is Task:
            del graph[target]
            graph[key] = Task(key, task.func, *task.args, **task.kwargs)
    return graph


def _count_uses(graph: Graph, keys: set[Key]) -> dict[Key, int]:
    """How many nodes use each of some nodes."""
    found = dict.fromkeys(keys, 0)
    if keys:
        for node in graph.values():
            for key in keys.intersection(node.dependencies):
                found[key] += 1
    return found


def reachable(graph: Graph, keys: Iterable[Key]) -> list[Key]:
    """The keys that some keys need, in the order in which they are needed: a node after all that it uses.

    Of the nodes that one node uses, blocks of several arrays with the same index come together.
    """
    found: list[Key] = []
    entered: set[Key] = set()
    waiting: list[tuple[Key, bool]] = [(key, False) for key in reversed(list(keys)) if key in graph]
    while waiting:
        key, left = waiting.pop()
        if left:
            found.append(key)
            continue
        if key in entered:
            continue
        entered.add(key)
        needed = [one for one in graph[key].dependencies if one not in entered and one in graph]
        if not needed:
            found.append(key)
            continue
        waiting.append((key, True))
        if len(needed) > 1:
            needed.sort(key=_by_name, reverse=True)
        for one in needed:
            waiting.append((one, False))  # noqa: PERF401 - most lists have one element
    return found


def _by_name(key: Any) -> tuple[Any, ...]:
    if type(key) is tuple and key and isinstance(key[0], str) and all(type(one) is int for one in key[1:]):
        return (0, key[1:], key[0])
    return (1, (), str(key))


def dependents_of(graph: Graph) -> dict[Key, list[Key]]:
    """The nodes that use each node."""
    found: dict[Key, list[Key]] = {}
    for key, node in graph.items():
        for needed in node.dependencies:
            found.setdefault(needed, []).append(key)
    return found


def value_of(graph: Graph, node: Any) -> tuple[bool, Any]:
    """Whether an argument of a task is a value that the graph contains, and that value."""
    for _ in range(_MAX_ALIASES):
        if isinstance(node, DataNode):
            return True, node.value
        if isinstance(node, TaskRef):
            node = graph.get(node.key)
        elif isinstance(node, Alias):
            node = graph.get(next(iter(node.dependencies)))
        else:
            break
    return node is not None and not isinstance(node, GraphNode), node


def arguments(task: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a task by name."""
    return {**dict(zip(names, task.args, strict=False)), **task.kwargs}
