"""A picture of buffers over the chunks of a graph, as SVG."""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.geometry.axis import Ints

#: Width and height of the larger side, in pixels, and the most boxes that are drawn of each kind.
_PIXELS, _MAX_BOXES = 240, 400
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f")


def sketch(shape: tuple[int, ...], boxes: tuple[Ints, Ints], buffers: tuple[Ints, Ints]) -> dict[str, Any] | None:
    """What a picture shows: the two axes with most cuts, and boxes in the first plane of the others; None in 0-D."""
    ndim = len(shape)
    if not ndim or not all(shape):
        return None
    cuts = [len(np.unique(boxes[0][:, axis])) + len(np.unique(buffers[0][:, axis])) for axis in range(ndim)]
    chosen = sorted(sorted(range(ndim), key=lambda axis: -cuts[axis])[:2])
    return {
        "axes": chosen,
        "lengths": [shape[axis] for axis in chosen],
        "boxes": _plane(boxes, chosen),
        "buffers": _plane(buffers, chosen),
    }


def _plane(bounds: tuple[Ints, Ints], chosen: list[int]) -> list[list[int]]:
    starts, stops = bounds
    others = [axis for axis in range(starts.shape[1]) if axis not in chosen]
    first = starts[:, others].min(axis=0)
    inside = (starts[:, others] <= first).all(axis=1) & (stops[:, others] > first).all(axis=1)
    rows = np.hstack([starts[inside][:, chosen], stops[inside][:, chosen]])
    found: list[list[int]] = np.unique(rows, axis=0)[:_MAX_BOXES].tolist()
    return found


def draw(picture: dict[str, Any]) -> str:
    """The picture as SVG: buffers in colour, boxes of the graph as lines."""
    lengths = picture["lengths"]
    high, wide = (lengths[0], lengths[1]) if len(lengths) == 2 else (max(lengths[0] // 8, 1), lengths[0])
    scale = _PIXELS / max(high, wide)
    # A long and thin array is still visible.
    up, across = max(high * scale, 24.0), max(wide * scale, 24.0)
    steps = (up / high, across / wide)
    parts = [
        _rectangle(row, len(lengths), steps, high, f'fill="{_COLOURS[n % len(_COLOURS)]}" fill-opacity="0.45"')
        for n, row in enumerate(picture["buffers"])
    ]
    parts += [
        _rectangle(row, len(lengths), steps, high, 'fill="none" stroke="#333" stroke-width="0.6"')
        for row in picture["boxes"]
    ]
    axes = " × ".join(f"axis {axis}: {length}" for axis, length in zip(picture["axes"], lengths, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across + 2:.0f}" height="{up + 18:.0f}">'
        f'{"".join(parts)}<text x="0" y="{up + 14:.0f}" font-size="11" font-family="sans-serif">{axes}</text></svg>'
    )


def _rectangle(row: list[int], ndim: int, steps: tuple[float, float], high: int, style: str) -> str:
    (top, left), (bottom, right) = (row[:2], row[2:]) if ndim == 2 else ((0, row[0]), (high, row[1]))
    x, y = left * steps[1] + 1, top * steps[0] + 1
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{(right - left) * steps[1]:.1f}" '
        f'height="{(bottom - top) * steps[0]:.1f}" {style}/>'
    )
