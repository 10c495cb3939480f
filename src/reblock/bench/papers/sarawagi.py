"""Sarawagi & Stonebraker's experiment by arithmetic: four arrays, a mix of queries, and five ways to store each array.

::

    unchunked → default chunks → chunks for the queries → chunks in another order → two copies

The paper does not print its queries, only their kinds; here each kind has a few boxes at random places. Blocks are
exact counts for these boxes, seconds are expected on a disk of the time, or on the jukebox.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

import numpy as np

from reblock.advisor.advice import Question, default_chunks
from reblock.advisor.copies import divide, route
from reblock.advisor.order import ChunkGrid
from reblock.advisor.price import Pricing
from reblock.advisor.search import Bounds, find_chunks
from reblock.cost import PRESETS
from reblock.geometry import Box
from reblock.geometry.runs import runs
from reblock.model import AccessClass, AccessPattern, Alignment, Device
from reblock.model.pattern import Positions
from reblock.render.tables import Column, Table, number, shape
from reblock.units import format_count, format_seconds

#: A local disk of 1994: seeks take 14 ms, and longer across the disk.
DISK_1994 = replace(
    PRESETS["hdd"],
    name="disk of 1994",
    read_bytes_per_second=1.5e6,
    write_bytes_per_second=1.2e6,
    open_seconds=0.006,
    seek_seconds=0.006,
    far_seek_seconds=0.008,
    travel_seconds_per_byte=0.03 / 1e9,
)
#: Queries of each kind.
_QUERIES = {"surface plot": 4, "mean over time": 3, "mean over height": 3, "cross-section": 4}
#: Chunks that an array has at least, in smaller copies of the experiment.
_LEAST_CHUNKS = 200
_ITEM_BYTES = 4
#: Names of the layouts, in the paper's order.
LAYOUTS = ("unchunked", "default", "chunked", "reordered", "2 copies")


@dataclass(frozen=True)
class DataSet:
    """One of the paper's arrays (Table 1)."""

    number: int
    """Its number in the paper."""
    shape: tuple[int, ...]
    """Its shape."""
    axes: tuple[str, ...]
    """What its axes are."""
    block_bytes: int
    """Bytes of a block of its device."""
    device: Device
    """Its device."""
    paper: dict[str, float] = field(default_factory=dict, hash=False)
    """The paper's time of each layout, over that of the array without chunks."""

    def scaled(self, scale: int) -> DataSet:
        """A smaller array of the same kind, with a block that cuts it into many."""
        sides = tuple(max(round(n / scale**0.6), 4) if n >= 20 else n for n in self.shape)
        size = prod(sides) * _ITEM_BYTES
        return replace(self, shape=sides, block_bytes=max(min(self.block_bytes, size // _LEAST_CHUNKS), 512))


_OCEAN = ("time", "latitude", "longitude", "height", "variable")
_AIR = ("time", "latitude", "variable", "longitude", "height")
SETS = (
    DataSet(1, (25, 135, 27, 100, 5), _OCEAN, 8192, DISK_1994,
            {"chunked": 0.6, "reordered": 0.24, "2 copies": 0.175}),
    DataSet(2, (50, 180, 90, 20, 5), _OCEAN, 8192, DISK_1994),
    DataSet(3, (72, 90, 38, 144, 30), _AIR, 262_144, PRESETS["jukebox"],
            {"chunked": 0.0327, "reordered": 0.0262, "2 copies": 0.0131}),
    DataSet(4, (114, 360, 180, 24, 6), _OCEAN, 262_144, PRESETS["jukebox"],
            {"chunked": 0.083, "reordered": 0.073, "2 copies": 0.037}),
)  # fmt: skip


@dataclass(frozen=True)
class Query:
    """One read."""

    kind: str
    """What it is for."""
    box: Box
    """What it reads."""


@dataclass(frozen=True)
class StoredWay:
    """One way to store an array, and what the queries cost there."""

    name: str
    """Its name, one of LAYOUTS."""
    chunks: tuple[tuple[int, ...], ...]
    """Chunks of each copy; none = no chunks."""
    orders: tuple[tuple[int, ...], ...]
    """Order of the chunks of each copy."""
    owners: tuple[int, ...]
    """The copy that serves each query."""
    blocks: int
    """Blocks that all queries touch."""
    seconds: float
    """Expected time of all queries."""


def make_queries(data: DataSet) -> list[Query]:
    """The mix of queries: boxes of the paper's kinds at random places, always the same."""
    rng = np.random.default_rng(data.number)
    sides = dict(zip(data.axes, data.shape, strict=True))
    found = []
    for kind, count in _QUERIES.items():
        for turn in range(count):
            half = {name: max(sides[name] // 2, 1) for name in ("latitude", "longitude")}
            part = {name: max(sides[name] // 6, 1) for name in ("latitude", "longitude")}
            wanted = {
                "surface plot": half,
                "mean over time": {**part, "time": sides["time"]},
                "mean over height": {**part, "height": sides["height"]},
                "cross-section": {
                    ("latitude", "longitude")[turn % 2]: sides[("latitude", "longitude")[turn % 2]],
                    "height": sides["height"],
                },
            }[kind]
            lengths = [wanted.get(name, 1) for name in data.axes]
            starts = [int(rng.integers(0, n - a + 1)) for n, a in zip(data.shape, lengths, strict=True)]
            stops = tuple(a + n for a, n in zip(starts, lengths, strict=True))
            found.append(Query(kind, Box(tuple(starts), stops)))
    return found


def pattern_of(queries: Sequence[Query]) -> AccessPattern:
    """The perfect access pattern: a class for each shape of box, at the places of its queries."""
    groups: dict[tuple[int, ...], list[Query]] = {}
    for query in queries:
        groups.setdefault(query.box.shape, []).append(query)
    classes = [
        AccessClass(
            sides,
            float(len(some)),
            Alignment.POSITIONS,
            name=some[0].kind,
            positions=Positions.of([query.box.start for query in some], sides),
        )
        for sides, some in groups.items()
    ]
    return AccessPattern(tuple(classes))


def linear_blocks(data: DataSet, queries: Sequence[Query]) -> int:
    """Blocks of the array without chunks that the queries touch, each query on its own."""
    elements, order, total = data.block_bytes // _ITEM_BYTES, tuple(range(len(data.shape))), 0
    for query in queries:
        offsets, length = runs(Box.whole(data.shape), query.box, order)
        first, last = offsets // elements, (offsets + length - 1) // elements
        # Runs are in ascending order, so that a block is shared only with the run before.
        total += int((last - first + 1).sum() - np.count_nonzero(first[1:] == last[:-1]))
    return total


def ways(data: DataSet, queries: Sequence[Query]) -> list[StoredWay]:
    """The five ways to store an array, with what the queries cost."""
    pattern, count = pattern_of(queries), len(queries)
    pricing = Pricing(pattern, data.shape, _ITEM_BYTES, data.device)
    bounds = Bounds.of(data.shape, data.block_bytes // _ITEM_BYTES)
    straight = tuple(range(len(data.shape)))
    best = find_chunks(pricing, bounds, "blocks").best.chunks
    default = default_chunks(Question(pricing, bounds, block_bytes=data.block_bytes))
    turned = ChunkGrid.of(pattern, data.shape, best).best_axes()
    linear = float(pricing.linear(data.block_bytes).mean(pattern.weights).seconds[0, 0]) * count
    found = [StoredWay("unchunked", (), (straight,), (0,) * count, linear_blocks(data, queries), linear)]
    for name, chunks, order in (
        ("default", default, straight), ("chunked", best, straight), ("reordered", best, turned)
    ):  # fmt: skip
        found.append(_way(name, pricing, [chunks], [order], queries))
    copies = divide(pricing, bounds, "blocks", 2).copies
    orders = [ChunkGrid.of(pattern.part(one.classes), data.shape, one.chunks).best_axes() for one in copies]
    found.append(_way("2 copies", pricing, [one.chunks for one in copies], orders, queries))
    return found


def _way(
    name: str,
    pricing: Pricing,
    chunks: Sequence[tuple[int, ...]],
    orders: Sequence[tuple[int, ...]],
    queries: Sequence[Query],
) -> StoredWay:
    shapes, classes = np.array(chunks, np.int64), pricing.pattern.classes
    served = route(pricing, shapes, "blocks").argmin(axis=0)
    prices = [replace(pricing, order=order).chunks(shapes[n : n + 1]) for n, order in enumerate(orders)]
    blocks = seconds = 0.0
    for row, one in enumerate(classes):
        price = prices[served[row]]
        blocks += one.weight * float(price.blocks[row, 0])
        seconds += one.weight * float(price.seconds[row, 0])
    by_shape = {one.shape: int(copy) for one, copy in zip(classes, served, strict=True)}
    owners = tuple(by_shape[query.box.shape] for query in queries)
    return StoredWay(name, tuple(chunks), tuple(orders), owners, round(blocks), seconds)


def chunk_words(way: StoredWay) -> str:
    """Chunks of all copies, for a table."""
    return " + ".join(shape(one) for one in way.chunks) or "none"


def sarawagi_tables() -> list[Table]:
    """Blocks and seconds of the paper's arrays at full size, beside the paper's Figures 3 to 5."""
    rows, failures = [], 0
    for data in SETS:
        found = ways(data, make_queries(data))
        failures += not falls([way.blocks for way in found])
        rows += [
            (
                data.number,
                way.name,
                chunk_words(way),
                way.blocks,
                found[0].blocks / way.blocks,
                way.seconds,
                way.seconds / found[0].seconds,
                data.paper.get(way.name),
            )
            for way in found
        ]
    notes = (
        "Queries are surface plots, means over time or height, and cross-sections at random places: the paper names "
        "these kinds and prints no boxes. So its ratios are a direction, not a target.",
        "Sets 1 and 2 are on a disk of 1994 with blocks of 8 KiB, 3 and 4 on the jukebox with blocks of 256 KiB.",
    )
    return [
        Table(
            "sarawagi",
            "Sarawagi & Stonebraker, Figures 3 to 5, by arithmetic at full size: a mix of 14 queries",
            (
                Column("set", "set"),
                Column("layout", "layout"),
                Column("chunks", "chunks"),
                Column("blocks", "blocks", format_count),
                Column("fewer", "fewer ×", number),
                Column("seconds", "time", format_seconds),
                Column("time_ratio", "time ×", "{:.3f}".format),
                Column("time_ratio_paper", "paper", "{:.3f}".format),
            ),
            tuple(rows),
            notes,
            failures,
        )
    ]


def falls(blocks: Sequence[float]) -> bool:
    """Whether each layout needs at most as many blocks as the one before."""
    return all(later <= earlier for earlier, later in pairwise(blocks))
