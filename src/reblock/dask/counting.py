"""Counts the traffic of any set of boxes: the exact seek model, box by box instead of grid by grid.

A graph may read any boxes: parts of chunks, the same box twice, boxes with gaps between them. Each box is a memory grid
of its own, so the formula of `reblock.cost.seeks` holds for each; it is evaluated for all boxes at once.
"""

from __future__ import annotations

import numpy as np

from reblock.cost.codecs import codec_rate
from reblock.cost.estimate import moving_seconds
from reblock.geometry.axis import Axis, Ints
from reblock.model import Device, Layout, Traffic


def count_traffic(starts: Ints, stops: Ints, layout: Layout, *, writing: bool = False) -> Traffic:
    """The traffic of moving each box on its own; one row per box."""
    if not len(starts):
        return Traffic()
    units = layout.objects if writing else layout.units
    in_units = layout.encoded or layout.indexed or not (layout.partial_writes if writing else layout.partial_reads)
    one = np.ones(len(starts), np.int64)
    opens, touched, whole, inside, moved = one, one, one, 0 * one, one * layout.itemsize
    for axis in layout.order:
        low, high = starts[:, axis], stops[:, axis]
        objects = layout.objects.axes[axis]
        count, length = high - low, high - low
        if in_units:
            low, high, count, length = _whole_units(units.axes[axis], low, high)
        first, last = objects.indices(low), objects.indices(np.maximum(high - 1, low))
        cut_first, cut_last = low > objects.starts(first), high < objects.starts(last + 1)
        if not in_units:
            cut_first |= (first == 0) & bool(objects.lead)
            cut_last |= (last == objects.count - 1) & bool(objects.trail)
        met = last - first + 1
        cut = np.where(met == 1, cut_first | cut_last, cut_first.astype(np.int64) + cut_last)
        inside = inside * (met - cut) + touched * cut
        opens, touched, whole, moved = opens * met, touched * count, whole * (met - cut), moved * length
    total, parts = int(opens.sum()), int(inside.sum())
    if layout.indexed and not writing:
        found = int(touched.sum())
        return Traffic(total, found + total, found + 2 * total, int(moved.sum()))
    return Traffic(total, parts + int(whole.sum()), total + parts, int(moved.sum()))


def _whole_units(units: Axis, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The bounds of the units that intervals touch, their number, and their length with what sticks out."""
    first, last = units.indices(low), units.indices(np.maximum(high - 1, low))
    start, stop = units.starts(first), units.starts(last + 1)
    beyond = (first == 0) * units.lead + (last == units.count - 1) * units.trail
    return start, stop, last - first + 1, stop - start + beyond


def reading_seconds(traffic: Traffic, layout: Layout, device: Device) -> float:
    """Time to read and decode."""
    decoding = traffic.bytes / codec_rate(device.decode_bytes_per_second, layout.codec, encoding=False)
    return float(moving_seconds(traffic, device, device.read_bytes_per_second, layout.stored_part) + decoding)


def writing_seconds(traffic: Traffic, layout: Layout, device: Device) -> float:
    """Time to encode and write."""
    encoding = traffic.bytes / codec_rate(device.encode_bytes_per_second, layout.codec, encoding=True)
    return float(moving_seconds(traffic, device, device.write_bytes_per_second, layout.stored_part) + encoding)
