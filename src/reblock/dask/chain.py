"""Chains buffers, so that one is read when the loads of the one before are done.

::

    buffer 0 ──▶ task ──▶ ...        A token depends on the tasks that took a buffer's pieces, after dask has fused
       └───────▶ task ──▶ ...        these with what follows: often their results are small, or nothing at all (a
                  │                  chunk that was stored). It has no value, so that it keeps nothing in memory.
                token
                  ▼                  Buffers are in the order in which the graph needs them, those of all arrays in
    buffer 1 ──▶ task ──▶ ...        one chain.

A chain forces that order. Where a task combines loads of buffers that are far apart, the results of all buffers between
them would have to be kept: such a graph is not chained. Its buffers are smaller, so that several fit into memory, and
are read when the scheduler first takes a piece.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from dask._task_spec import DataNode, Task, TaskRef

from reblock.dask.graphs import Graph, Key, dependents_of
from reblock.dask.runtime import pass_token, read_buffer


@dataclass(frozen=True)
class Link:
    """One buffer of a chain."""

    key: Key
    """Its node."""
    nbytes: int
    """Bytes of its pieces."""


def chain_buffers(graph: Graph, keys: Collection[Key], links: Sequence[Link], *, memory_bytes: int, ahead: int) -> bool:
    """Add tokens to a graph whose tasks have been fused; returns False, and adds none, if that could fill the memory.

    `ahead` buffers may be in memory at the same time.
    """
    links = [link for link in links if _is_buffer(graph, link.key)]
    ends = _ends(graph, links)
    if _held(graph, set(keys), links, ends) > memory_bytes:
        return False
    for place in range(ahead, len(links)):
        before, link = links[place - ahead], links[place]
        token = ("reblock-token", *(before.key if isinstance(before.key, tuple) else (before.key,)))
        waits = ends[place - ahead] or [before.key]
        graph[token] = Task(token, pass_token, *map(TaskRef, waits))
        task = graph[link.key]
        graph[link.key] = Task(link.key, task.func, *task.args, TaskRef(token))
    return True


def _is_buffer(graph: Graph, key: Key) -> bool:
    return isinstance(node := graph.get(key), Task) and node.func is read_buffer


def _ends(graph: Graph, links: Sequence[Link]) -> list[list[Key]]:
    """Per buffer the tasks that have taken its last pieces: they depend on buffers only, up to this one."""
    places = {link.key: place for place, link in enumerate(links)}
    ends: list[list[Key]] = [[] for _ in links]
    for key, node in graph.items():
        uses = node.dependencies
        if not uses or places.keys().isdisjoint(uses):
            continue
        needed = uses if len(uses) == 1 else [one for one in uses if not isinstance(graph.get(one), DataNode)]
        if all(one in places for one in needed):
            ends[max(places[one] for one in needed)].append(key)
    return ends


def _held(graph: Graph, keys: set[Key], links: Sequence[Link], ends: Sequence[Sequence[Key]]) -> int:
    """The most bytes of loads that wait for loads of later buffers, in the order of the chain."""
    if len(links) < 2:
        return 0
    users = dependents_of(graph)
    known: dict[Key, bool] = {}
    joins = [[(key, _joins(graph, key, users, keys, known) if key in users else []) for key in some] for some in ends]
    last: dict[Key, int] = {}
    for place, some in enumerate(joins):
        for _, found in some:
            last.update(dict.fromkeys(found, place))
    change = np.zeros(len(links) + 1, np.int64)
    for place, some in enumerate(joins):
        for _, found in some:
            until = max((last[key] for key in found), default=place)
            if until > place:
                size = links[place].nbytes // len(some)
                change[place] += size
                change[until] -= size
    return int(np.cumsum(change).max(initial=0))


def _joins(graph: Graph, key: Key, users: dict[Key, list[Key]], keys: set[Key], known: dict[Key, bool]) -> list[Key]:
    """The tasks that combine what becomes of a load with something else; `known` is for layers that reduce."""
    found, waiting = [], [key]
    while waiting:
        key = waiting.pop()
        # What is left of a load after the first step of a reduction is small.
        layer = (key[0], type(graph[key])) if type(key) is tuple else key
        if layer not in known:
            # The tasks of one layer are alike.
            known[layer] = _reduces(graph[key])
        if known[layer]:
            continue
        for user in users.get(key, ()):
            # What the caller asked for is kept in any case.
            if user in keys:
                continue
            if len(graph[user].dependencies) == 1:
                waiting.append(user)
            else:
                found.append(user)
    return found


def _reduces(node: object, depth: int = 4) -> bool:
    """Whether a task, or one that is fused into it, is the first step of a reduction."""
    if isinstance(node, DataNode):
        node = node.value
    if isinstance(node, dict):
        return depth > 0 and any(_reduces(inner, depth - 1) for inner in node.values())
    if not isinstance(node, Task):
        return False
    return node.kwargs.get("keepdims") is True or (depth > 0 and any(_reduces(one, depth - 1) for one in node.args[:1]))
