"""AccessPrices: what accesses cost on a layout, in blocks, bytes, requests and seconds on a device.

A chunk is read whole. A shard adds a request for its index. An array without chunks is read in runs, and its blocks are
pages of the file. A write reads the chunks that it covers only in part, and writes all chunks that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from reblock.advisor.expect import Numbers, Shapes, axis_blocks, class_blocks, expected_blocks, grid_blocks
from reblock.cost.codecs import codec_rate
from reblock.cost.estimate import SERIAL, moving_seconds
from reblock.model import Device, Layout
from reblock.model.pattern import AccessClass, AccessPattern

#: What chunk shapes are ranked by.
GOALS = ("time", "blocks", "bytes", "requests")
#: Bytes of a page, the block of an array without chunks.
PAGE_BYTES = 4096


@dataclass(frozen=True)
class AccessPrices:
    """Expected cost of one access: a row per class, and a column per layout."""

    blocks: Numbers
    """Chunks, or pages, that it touches."""
    bytes: Numbers
    """Bytes that it moves, decoded."""
    requests: Numbers
    """Byte ranges that it asks for."""
    seconds: Numbers
    """Time on the device."""

    def of(self, goal: str) -> Numbers:
        """The figure that a goal ranks by."""
        found: Numbers = self.seconds if goal == "time" else getattr(self, goal)
        return found

    def mean(self, weights: Numbers) -> AccessPrices:
        """The same for an average access: one row."""
        figures = (self.blocks, self.bytes, self.requests, self.seconds)
        return AccessPrices(*((weights @ figure)[None, :] for figure in figures))

    def column(self, number: int) -> AccessPrices:
        """The same for one of the layouts."""
        figures = (self.blocks, self.bytes, self.requests, self.seconds)
        return AccessPrices(*(figure[:, number : number + 1] for figure in figures))


@dataclass(frozen=True)
class Pricing:
    """Everything that the price of an access depends on, but for the chunks."""

    pattern: AccessPattern
    """The accesses."""
    shape: tuple[int, ...]
    """Shape of the array."""
    itemsize: int
    """Bytes of an element."""
    device: Device
    """Where the array is stored."""
    codec: str = ""
    """Text of the codec of chunks."""
    stored_part: float = 1.0
    """Stored bytes over bytes of elements."""
    order: tuple[int, ...] | None = None
    """Order of the axes of chunks on disk; None = the usual one."""

    def thinned(self, most: int) -> Pricing:
        """The same with at most `most` known positions per class."""
        classes = tuple(
            one if one.positions is None else replace(one, positions=one.positions.thinned(most))
            for one in self.pattern.classes
        )
        return replace(self, pattern=replace(self.pattern, classes=classes))

    @property
    def rows(self) -> int:
        """Boxes whose chunks are counted for each chunk shape."""
        return sum(1 if one.positions is None else len(one.positions.counts) for one in self.pattern.classes)

    # ---------------------------------------------------------------- layouts
    def chunks(self, chunks: Shapes, shards: Shapes | None = None) -> AccessPrices:
        """AccessPrices of several chunk shapes, and of the shards around them."""
        blocks = expected_blocks(self.pattern, self.shape, chunks)
        opens = blocks if shards is None else expected_blocks(self.pattern, self.shape, shards)
        requests = blocks if shards is None else blocks + opens
        unit = np.prod(chunks.astype(np.float64), axis=1) * self.itemsize
        found = AccessPrices(blocks, blocks * unit, requests, np.empty_like(blocks))
        for row, one in enumerate(self.pattern.classes):
            partial = 0.0
            if one.writes:
                partial = blocks[row] - np.minimum(class_blocks(one, self.shape, chunks, covered=True), blocks[row])
            found.seconds[row] = self._seconds(one, found, row, opens[row], partial * unit)
            if self._has_distance:
                found.seconds[row] += self._distance_seconds(one, chunks, unit)
        return found

    def score(self, chunks: Shapes, goal: str) -> Numbers:
        """The figure of a goal for an average access, for each of several chunk shapes."""
        weights = self.pattern.weights
        if goal == "time":
            return weights @ self.chunks(chunks).seconds
        found: Numbers = weights @ expected_blocks(self.pattern, self.shape, chunks)
        if goal == "bytes":
            found = found * (np.prod(chunks.astype(np.float64), axis=1) * self.itemsize)
        return found

    def layout(self, layout: Layout) -> AccessPrices:
        """AccessPrices of a stored array as it is."""
        if is_linear(layout):
            return self.linear(PAGE_BYTES, layout.order)
        blocks = grid_blocks(self.pattern, layout.units)[:, None]
        shards = layout.files
        opens = blocks if shards is None else grid_blocks(self.pattern, shards)[:, None]
        requests = blocks if shards is None else blocks + opens
        regular = all(axis.step for axis in layout.units.axes)
        unit = float(layout.unit_bytes) if regular else layout.nbytes / max(layout.units.count, 1)
        found = AccessPrices(blocks, blocks * unit, requests, np.empty_like(blocks))
        for row, one in enumerate(self.pattern.classes):
            partial = blocks[row] * unit if one.writes else 0.0
            found.seconds[row] = self._seconds(one, found, row, opens[row], partial)
            if self._has_distance:
                lengths = [axis.step or -(-axis.length // max(axis.count, 1)) or 1 for axis in layout.units.axes]
                found.seconds[row] += self._distance_seconds(one, np.array([lengths], np.int64), np.array([unit]))
        return found

    def linear(self, block_bytes: int, order: Sequence[int] | None = None) -> AccessPrices:
        """AccessPrices of an array without chunks, in blocks of a size; its axes lie in an order on disk."""
        order = tuple(range(len(self.shape))) if order is None else tuple(order)
        chunk = linear_chunk(self.shape, max(block_bytes // self.itemsize, 1), order)
        blocks = expected_blocks(self.pattern, self.shape, np.array([chunk], np.int64))
        runs = np.array([[_runs(one.shape, self.shape, order)] for one in self.pattern.classes], np.float64)
        unit = prod(chunk) * self.itemsize
        found = AccessPrices(blocks, blocks * unit, np.minimum(runs, blocks), np.empty_like(blocks))
        for row, one in enumerate(self.pattern.classes):
            found.seconds[row] = self._seconds(one, found, row, np.ones(1), blocks[row] * unit * one.writes)
            if self._has_distance:
                shapes = np.array([chunk], np.int64)
                found.seconds[row] += self._distance_seconds(one, shapes, np.array([unit]), order)
        return found

    # ---------------------------------------------------------------- time
    @property
    def _has_distance(self) -> bool:
        """Whether it matters how far apart the chunks of an access are."""
        device = self.device
        return bool(device.travel_seconds_per_byte or (device.medium_bytes and device.switch_seconds))

    def _distance_seconds(
        self, one: AccessClass, chunks: Shapes, unit: Numbers, order: Sequence[int] | None = None
    ) -> Numbers:
        """Time of travelling from the first chunk of an access to the last (Lemma 1), and of mounting media."""
        span, total = np.zeros(len(chunks)), np.ones(len(chunks))
        for axis in order or self.order or range(len(self.shape)):
            counts = np.ceil(self.shape[axis] / chunks[:, axis])
            span = span * counts + axis_blocks(one, axis, self.shape[axis], chunks[:, axis]) - 1
            total = total * counts
        device = self.device
        seconds: Numbers = span * unit * device.travel_seconds_per_byte
        if device.medium_bytes:
            media = np.ceil(total * unit / device.medium_bytes)
            touched = 1 + (media - 1) * np.minimum(span / total, 1.0)
            # As many media as there are drives are mounted already, and each is as likely to be among them.
            seconds = seconds + device.switch_seconds * touched * np.maximum(1 - device.drives / media, 0)
        return seconds

    def _seconds(self, one: AccessClass, found: AccessPrices, row: int, opens: Any, partial_bytes: Any) -> Any:
        device, size = self.device, found.bytes[row]
        waiting = _AccessCounts(opens, found.requests[row], size)
        first = device.open_seconds + device.far_seek_seconds
        if one.writes:
            rate = device.write_bytes_per_second
            moved = moving_seconds(waiting, device, rate, self.stored_part)
            moved = moved + partial_bytes * self.stored_part / device.read_bytes_per_second
            worked = size / codec_rate(device.encode_bytes_per_second, self.codec, encoding=True)
            worked = worked + partial_bytes / codec_rate(device.decode_bytes_per_second, self.codec, encoding=False)
        else:
            moved = moving_seconds(waiting, device, device.read_bytes_per_second, self.stored_part)
            worked = size / codec_rate(device.decode_bytes_per_second, self.codec, encoding=False)
        # One request takes its whole latency, however many could be in flight.
        moved = np.maximum(moved, first + size * self.stored_part / device.read_bytes_per_second)
        worked = worked + size / device.memory_bytes_per_second + opens * device.visit_seconds
        longer = np.maximum(moved, worked)
        return longer + SERIAL * (moved + worked - longer)


@dataclass(frozen=True)
class _AccessCounts:
    """What the time model counts of an access."""

    opens: Any
    """Objects that are opened."""
    seeks: Any
    """Byte ranges that are asked for."""
    bytes: Any
    """Bytes that are moved."""


def is_linear(layout: Layout) -> bool:
    """Whether an array is one run of bytes, any part of which can be read."""
    return layout.objects.count <= 1 and layout.partial_reads and not layout.encoded and not layout.indexed


def linear_chunk(shape: Sequence[int], elements: int, order: Sequence[int]) -> tuple[int, ...]:
    """The box that a block of consecutive elements covers: whole inner axes, and a part of the next.

    >>> linear_chunk((100, 2000, 8000), 16000, (0, 1, 2))
    (1, 2, 8000)
    """
    chunk = [1] * len(shape)
    for axis in reversed(order):
        chunk[axis] = min(max(shape[axis], 1), max(elements, 1))
        elements //= chunk[axis]
        if chunk[axis] < shape[axis]:
            break
    return tuple(chunk)


def _runs(box: Sequence[int], shape: Sequence[int], order: Sequence[int]) -> int:
    """Contiguous runs of a box in an array without chunks."""
    axes = list(order)
    while axes and box[axes[-1]] == shape[axes[-1]]:
        axes.pop()
    return prod(box[axis] for axis in axes[:-1])
