"""What the tests of the advisor share: random patterns, and the paper's own example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from reblock.advisor.price import Pricing
from reblock.cost import PRESETS
from reblock.model import AccessClass, AccessPattern, Alignment
from reblock.model.pattern import Positions

#: Sarawagi & Stonebraker, Fig. 2.
PAPER_SHAPE, PAPER_BLOCK = (100, 2000, 8000), 8000


def paper(alignment: Alignment = Alignment.ALIGNED) -> AccessPattern:
    return AccessPattern(
        (AccessClass((10, 400, 10), 0.5, alignment), AccessClass((20, 5, 400), 0.5, alignment)),
    )


def priced(pattern: AccessPattern, shape: Sequence[int], itemsize: int = 1, device: str = "nvme") -> Pricing:
    return Pricing(pattern, tuple(shape), itemsize, PRESETS[device])


@st.composite
def patterns(
    draw: st.DrawFn, shape: Sequence[int], *, most: int = 4, alignments: Sequence[Alignment] = tuple(Alignment)
) -> AccessPattern:
    """Patterns of an array."""
    classes = []
    for _ in range(draw(st.integers(1, most))):
        box = tuple(draw(st.integers(1, n)) for n in shape)
        weight, alignment = draw(st.integers(1, 9)), draw(st.sampled_from(list(alignments)))
        positions = None
        if alignment is Alignment.POSITIONS:
            starts = [
                [draw(st.integers(0, n - a)) for n, a in zip(shape, box, strict=True)]
                for _ in range(draw(st.integers(1, 4)))
            ]
            positions = Positions.of(starts, box)
        classes.append(AccessClass(box, float(weight), alignment, positions=positions))
    return AccessPattern(tuple(classes))


def logarithmic(rng: np.random.Generator, low: float, high: float, count: int) -> tuple[int, ...]:
    """Integers of all magnitudes."""
    return tuple(int(n) for n in np.exp(rng.uniform(np.log(low), np.log(high), count)))


@pytest.fixture
def rng() -> Any:
    return np.random.default_rng(23)
