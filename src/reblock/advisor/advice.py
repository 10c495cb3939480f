"""Advice: the layouts that were considered for an access pattern, what each costs, and the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import Any

import numpy as np

from reblock.advisor.copies import CopySet, LayoutCopy, check_copies, divide, route
from reblock.advisor.media import MediaGrid, MediaPrice
from reblock.advisor.order import ChunkGrid, OrderPrice
from reblock.advisor.price import AccessPrices, Pricing, linear_chunk
from reblock.advisor.proportional import proportional
from reblock.advisor.search import Bounds, ShapeSearch, find_chunks
from reblock.advisor.shards import choose_shards
from reblock.model import Layout
from reblock.model.pattern import AccessPattern

#: Copies that are compared with one, unless another number is asked for.
USUAL_COPIES = 2


@dataclass(frozen=True)
class Expense:
    """What an access costs."""

    blocks: float
    """Chunks that it touches; pages of an array without chunks."""
    bytes: float
    """Bytes that it moves, decoded."""
    requests: float
    """Byte ranges that it asks for."""
    seconds: float
    """Time on the device."""

    @classmethod
    def of(cls, prices: AccessPrices, row: int = 0) -> Expense:
        """One row of prices of one layout."""
        figures = (prices.blocks, prices.bytes, prices.requests, prices.seconds)
        return cls(*(float(figure[row, 0]) for figure in figures))

    def to_json(self) -> dict[str, float]:
        return {"blocks": self.blocks, "bytes": self.bytes, "requests": self.requests, "seconds": self.seconds}


@dataclass(frozen=True)
class Candidate:
    """A layout, and what accesses cost on it."""

    method: str
    """How it was found."""
    chunks: tuple[Any, ...] | None
    """Its chunks; None for an array without chunks."""
    shards: tuple[int, ...] | None
    """Its shards."""
    mean: Expense
    """Cost of an average access."""
    classes: tuple[Expense, ...]
    """Cost of an access of each class."""

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "chunks": _json_chunks(self.chunks),
            "shards": None if self.shards is None else list(self.shards),
            **self.mean.to_json(),
            "classes": [one.to_json() for one in self.classes],
        }


@dataclass(frozen=True)
class CopyAdvice:
    """One of several copies."""

    chunks: tuple[int, ...]
    """Its chunks."""
    order: tuple[int, ...]
    """The best order of axes for its chunks."""
    classes: tuple[int, ...]
    """Numbers of the classes that it serves."""
    names: tuple[str, ...]
    """Their names."""

    def to_json(self) -> dict[str, Any]:
        return {
            "chunks": list(self.chunks),
            "order": list(self.order),
            "classes": list(self.classes),
            "names": list(self.names),
        }


@dataclass(frozen=True)
class Conversion:
    """What it takes to convert the array to the best layout."""

    seconds: float
    """Time of the conversion."""
    bytes: int
    """Bytes that it reads and writes."""
    break_even_reads: int | None
    """Accesses after which it pays; None = never."""

    @classmethod
    def of(cls, seconds: float, size: int, before: float, after: float) -> Conversion:
        """A conversion that changes the time of an access."""
        gain = before - after
        # A gain below rounding errors is none.
        pays = gain > 1e-9 * max(before, after)
        return cls(seconds, size, max(ceil(seconds / gain), 1) if pays else None)

    def to_json(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "bytes": self.bytes, "break_even_reads": self.break_even_reads}


@dataclass(frozen=True)
class Advice:
    """Layouts for an access pattern, best first in `best`, and whether to convert to it."""

    subject: str
    """The array, in words."""
    shape: tuple[int, ...]
    """Its shape."""
    pattern: AccessPattern
    """The accesses; without classes if none were named."""
    goal: str
    """What layouts are ranked by."""
    device: str
    """Name of the device."""
    best: Candidate
    """The best layout of one copy."""
    candidates: tuple[Candidate, ...]
    """Every layout that was considered."""
    order: tuple[int, ...]
    """The best order of axes for the chunks on disk, outermost first."""
    orders: tuple[OrderPrice, ...]
    """Orders of chunks that were priced, the best first."""
    exhaustive: bool
    """Whether every chunk shape that can be the best was tried."""
    copies: tuple[CopyAdvice, ...] = ()
    """Several copies, each for some of the classes."""
    conversion: Conversion | None = None
    """What it takes to convert; None where there is nothing to convert, or no memory for it."""
    command: str = ""
    """The command that converts the array."""
    media: tuple[MediaPrice, ...] = ()
    """Assignments of chunks to media, the best first."""
    notes: tuple[str, ...] = field(default=())
    """Remarks."""

    @property
    def today(self) -> Candidate | None:
        """The array as it is."""
        return next((one for one in self.candidates if one.method == "today"), None)

    def to_json(self) -> dict[str, Any]:
        """What `reblock advise --json` prints."""
        best = self.best.to_json()
        return {
            "best": {key: best[key] for key in ("chunks", "shards", "blocks", "bytes", "requests", "seconds")},
            "chunk_order": list(self.order),
            "order": list(self.order),
            "orders": [{"order": one.order, "span": one.span, "runs": one.runs} for one in self.orders],
            "candidates": [one.to_json() for one in self.candidates],
            "copies": [one.to_json() for one in self.copies],
            "media": [one.to_json() for one in self.media],
            "conversion": None if self.conversion is None else self.conversion.to_json(),
            "classes": [
                {
                    "name": one.label,
                    "shape": list(one.shape),
                    "weight": float(weight),
                    "at": one.alignment.value,
                    "operation": "write" if one.writes else "read",
                }
                for one, weight in zip(self.pattern.classes, self.pattern.weights, strict=True)
            ]
            if self.pattern.classes
            else [],
            "explained": self.pattern.explained,
            "objective": self.goal,
            "device": self.device,
            "model": self.pattern.model if self.pattern.classes else "none",
            "search": "exhaustive" if self.exhaustive else "heuristic",
            "command": self.command,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Question:
    """What advice is wanted on."""

    pricing: Pricing
    """The accesses, the array and the device."""
    bounds: Bounds
    """Chunks that are allowed."""
    goal: str = "time"
    """What layouts are ranked by."""
    today: Layout | None = None
    """The array as it is stored."""
    copies: int | None = None
    """Number of copies; None = two, where there are classes for them."""
    shard_chunks: int = 0
    """The most chunks in a shard; 0 = no shards."""
    block_bytes: int = 0
    """The most bytes of a chunk."""
    media: int | None = None
    """Number of media to place chunks on; None = one."""
    media_goal: str = "few"
    """Whether an access is to touch few or many media."""

    def candidate(self, method: str, chunks: Sequence[int], shards: Sequence[int] | None = None) -> Candidate:
        """A chunk shape with its prices."""
        rows = None if shards is None else np.array([shards], np.int64)
        prices = self.pricing.chunks(np.array([chunks], np.int64), rows)
        return self.priced(method, tuple(chunks), None if shards is None else tuple(shards), prices)

    def priced(
        self, method: str, chunks: tuple[Any, ...] | None, shards: tuple[int, ...] | None, prices: AccessPrices
    ) -> Candidate:
        classes = tuple(Expense.of(prices, row) for row in range(len(self.pricing.pattern.classes)))
        return Candidate(method, chunks, shards, Expense.of(prices.mean(self.pricing.pattern.weights)), classes)

    def as_stored(self, layout: Layout) -> Candidate:
        """The array as it is."""
        prices = self.pricing.layout(layout)
        chunks = tuple(axis.step or tuple(axis.lengths()) for axis in layout.units.axes)
        shards = None if layout.files is None else tuple(layout.files.largest_stored)
        return self.priced("today", chunks, shards, prices)

    def linear(self) -> Candidate:
        """An array without chunks, in blocks of the size of the largest chunk."""
        order = tuple(range(len(self.pricing.shape)))
        elements = max(self.block_bytes // self.pricing.itemsize, 1)
        shape = linear_chunk(self.pricing.shape, elements, order)
        return replace(self.priced("linear", None, None, self.pricing.linear(self.block_bytes)), chunks=shape)


def consider(question: Question, subject: str) -> Advice:
    """Find the best layout for the accesses, and price it beside the usual ones."""
    pricing, bounds, goal = question.pricing, question.bounds, question.goal
    pattern = pricing.pattern
    if question.copies is not None:
        check_copies(question.copies, len(pattern.classes))
    found = find_chunks(pricing, bounds, goal)
    candidates = [] if question.today is None else [question.as_stored(question.today)]
    candidates.append(question.linear())
    candidates.append(question.candidate("default", default_chunks(question)))
    shards = {
        one.chunks: choose_shards(question.pricing, one.chunks, goal, question.shard_chunks) for one in found.found
    }
    made = [question.candidate(one.method, one.chunks, shards[one.chunks]) for one in found.found]
    best = _best(made, found, goal)
    candidates += made
    copies, mean = _copies(question)
    grid = ChunkGrid.of(pattern, pricing.shape, best.chunks or (), best.shards)
    return Advice(
        subject,
        pricing.shape,
        pattern,
        goal,
        pricing.device.name,
        best,
        tuple(candidates if mean is None else [*candidates, mean]),
        grid.best_axes(),
        tuple(grid.prices()),
        found.exhaustive,
        copies,
        media=_media(question, best),
    )


def _media(question: Question, best: Candidate) -> tuple[MediaPrice, ...]:
    """Placements of the best layout's objects on media."""
    if question.media is None:
        return ()
    pricing = question.pricing
    grid = MediaGrid(pricing.pattern, pricing.shape, tuple(best.shards or best.chunks or ()), question.media)
    return tuple(grid.prices(question.media_goal))


def _best(made: Sequence[Candidate], found: ShapeSearch, goal: str) -> Candidate:
    """The best layout; shards may make another one of the shapes the best."""
    if all(one.shards is None for one in made):
        return made[found.found.index(found.best)]
    return min(reversed(made), key=lambda one: _figure(one.mean, goal))


def _figure(cost: Expense, goal: str) -> float:
    return cost.seconds if goal == "time" else float(getattr(cost, goal))


def _copies(question: Question) -> tuple[tuple[CopyAdvice, ...], Candidate | None]:
    """Several copies, and what accesses cost on them; nothing where one copy serves all classes."""
    pricing = question.pricing
    count = question.copies or min(USUAL_COPIES, len(pricing.pattern.classes))
    if count < 2 and question.copies is None:
        return (), None
    found = divide(pricing, question.bounds, question.goal, count)
    advice = tuple(_copy(question, one) for one in found.copies)
    method = f"{count} copies" if count > 1 else "1 copy"
    return advice, _served(question, found, method)


def _copy(question: Question, one: LayoutCopy) -> CopyAdvice:
    part = question.pricing.pattern.part(one.classes)
    grid = ChunkGrid.of(part, question.pricing.shape, one.chunks)
    return CopyAdvice(one.chunks, grid.best_axes(), one.classes, tuple(each.label for each in part.classes))


def _served(question: Question, found: CopySet, method: str) -> Candidate:
    """Accesses on several copies, each served by the cheapest one."""
    pricing = question.pricing
    shapes = np.array([one.chunks for one in found.copies], np.int64)
    owners = route(pricing, shapes, question.goal).argmin(axis=0)
    prices = pricing.chunks(shapes)
    rows = np.arange(len(owners))
    figures = (prices.blocks, prices.bytes, prices.requests, prices.seconds)
    served = AccessPrices(*(figure[rows, owners][:, None] for figure in figures))
    return question.priced(method, None, None, served)


def default_chunks(question: Question) -> tuple[int, ...]:
    """The chunk that is used without a pattern: of the array's proportions, with little padding."""
    pricing, bounds = question.pricing, question.bounds
    # The default may exceed its size a little; here the size is a limit.
    for part in range(16, 0, -1):
        size = max(bounds.most * pricing.itemsize * part // 16, 1)
        chunks = proportional(pricing.shape, pricing.itemsize, size)
        fixed = tuple(min(max(n, a), b) for n, a, b in zip(chunks, bounds.low, bounds.high, strict=True))
        if prod(fixed) <= bounds.most:
            return fixed
    return bounds.low


def _json_chunks(chunks: tuple[Any, ...] | None) -> list[Any] | None:
    return None if chunks is None else [one if isinstance(one, int) else list(one) for one in chunks]
