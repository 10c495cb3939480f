"""Placement: which of N disks, buckets, tapes or platters holds a chunk.

::

    round-robin   0 1 2 3      range   0 0 0 0      boxes   0 0 1 1      four-way   0 1 2 3
                  0 1 2 3              1 1 1 1              0 0 1 1                 3 0 1 2
                  0 1 2 3              2 2 2 2              2 2 3 3                 2 3 0 1
                  0 1 2 3              3 3 3 3              2 2 3 3                 1 2 3 0

- *round-robin*: chunk after chunk in C order. *range*: as many consecutive chunks on each medium.
- *boxes*: the array in N boxes (a chunk of the size of a platter, Sarawagi & Stonebraker 1994, section 2.4).
- *four-way*: neighbours along each axis are on different media, and so are as many in a row as there are media.
- *random*: by a hash of the number of the chunk.

Stored arrays depend on this arithmetic: a change of it would be another format of block folders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import UsageError

#: Names of the placements.
PLACEMENTS = ("round-robin", "range", "boxes", "four-way", "random")
#: Those that are known from the number of media alone.
FIXED_PLACEMENTS = tuple(name for name in PLACEMENTS if name != "boxes")
#: The golden section.
_GOLDEN = 0.618
_WORD = (1 << 64) - 1

Numbered = npt.NDArray[np.int64]
#: Finds the medium of chunks from their indices: one row per axis.
Assign = Callable[[Numbered], Numbered]
#: Finds the medium of one chunk from its index.
AssignOne = Callable[[Sequence[int]], int]


def placing(placement: str, counts: Sequence[int], media: int, boxes: Sequence[int] | None = None) -> Assign:
    """The function that finds the media of chunks in a grid; `boxes` are needed for that placement.

    >>> placing("four-way", (4, 4), 4)(np.indices((2, 4)).reshape(2, -1)).tolist()
    [0, 1, 2, 3, 3, 0, 1, 2]
    """
    formula = _formula(placement, counts, media, boxes)

    def assign(indices: Numbered) -> Numbered:
        found: Numbered = np.asarray(formula(indices))
        # Without axes there is one chunk.
        return found if len(counts) else np.zeros(1, np.int64)

    return assign


def placing_one(placement: str, counts: Sequence[int], media: int) -> AssignOne:
    """The same for one chunk at a time, without numpy.

    >>> [placing_one("four-way", (4, 4), 4)(index) for index in ((0, 3), (1, 0))]
    [3, 3]
    """
    formula = _formula(placement, counts, media, None)
    return lambda index: int(formula(index)) if counts else 0


def _formula(
    placement: str, counts: Sequence[int], media: int, boxes: Sequence[int] | None
) -> Callable[[Sequence[Any] | Numbered], Any]:
    """The arithmetic of a placement, on integers or on arrays of them."""
    if placement not in PLACEMENTS:
        raise UsageError(f"there is no placement {placement!r}: use {', '.join(PLACEMENTS)}")
    if placement == "four-way":
        steps = _steps(len(counts), media)
        return lambda indices: sum(one * step for one, step in zip(indices, steps, strict=True)) % media
    if placement == "boxes":
        sides = [-(-n // m) for n, m in zip(counts, boxes or (1,) * len(counts), strict=True)]
        shape = tuple(-(-n // max(side, 1)) for n, side in zip(counts, sides, strict=True))
        return lambda indices: _number([one // max(side, 1) for one, side in zip(indices, sides, strict=True)], shape)
    if placement == "round-robin":
        return lambda indices: _number(indices, counts) % media
    if placement == "range":
        share = max(-(-prod(counts) // media), 1)
        return lambda indices: _number(indices, counts) // share
    return lambda indices: _mixed(_number(indices, counts)) % media


def _steps(axes: int, media: int) -> list[int]:
    """How far the medium moves with each axis: steps without a common factor with the number of media.

    The innermost axis moves by one, the others by steps near the golden section, which keeps diagonals apart.
    """
    coprime = [step for step in range(2, media) if gcd(step, media) == 1]
    others = sorted(coprime, key=lambda step: abs(step - _GOLDEN * media))[: max(axes - 1, 0)]
    return [(others or [1])[number % max(len(others), 1)] for number in range(axes - 1)] + [1] * (axes > 0)


def _number(indices: Sequence[Any] | Numbered, counts: Sequence[int]) -> Any:
    """The number of a chunk in C order."""
    number: Any = 0
    for one, count in zip(indices, counts, strict=True):
        number = number * count + one
    return number


def _mixed(number: Any) -> Any:
    """A hash of a number (splitmix64), below 2**62."""
    word: Any = np.uint64 if isinstance(number, np.ndarray) else int
    mixed: Any = number.astype(np.uint64) if isinstance(number, np.ndarray) else number
    mixed = (mixed + word(0x9E3779B97F4A7C15)) & word(_WORD)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = ((mixed ^ (mixed >> word(shift))) * word(factor)) & word(_WORD)
    mixed = (mixed ^ (mixed >> word(31))) >> word(2)
    return mixed.astype(np.int64) if isinstance(number, np.ndarray) else mixed
