"""The affine of an array in space, from indices to millimetres, and what crops and transpositions make of it.

NIfTI and MINC describe the same thing in different ways. As the attribute `affine`, 4 × 4 numbers for indices of the
array's own first three axes, it goes from one format to the other, and through those that know nothing of space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

#: Name of the attribute.
AFFINE = "affine"
#: Attributes of the formats that have it, so that other people's attributes of this name stay as they are.
NIFTI_HEADER, MINC_STEP = "nifti_header", ":step"


def affine_in(value: Any) -> npt.NDArray[np.float64] | None:
    """An affine among attributes; None if it is not a finite 4 × 4 matrix."""
    try:
        affine = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return None
    return affine if affine.shape == (4, 4) and np.isfinite(affine).all() else None


def view_in_space(
    attributes: Mapping[str, Any], start: Sequence[int], axes: Sequence[int]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Attributes of `array[start:...].transpose(axes)`, and notes on what is lost."""
    kept = dict(attributes)
    affine = affine_in(attributes.get(AFFINE))
    ours = NIFTI_HEADER in attributes or any(name.endswith(MINC_STEP) for name in attributes)
    if affine is None or not ours or (not any(start) and list(axes) == sorted(axes)):
        return kept, ()
    places = [*axes, *range(len(axes), 3)][:3]
    if sorted(places) != [0, 1, 2]:
        del kept[AFFINE]
        kept.pop(NIFTI_HEADER, None)
        return kept, ("the place in space is not kept: the first three axes are no longer those in space",)
    turn = np.zeros((4, 4))
    turn[3, 3] = 1
    for place, axis in enumerate(places):
        turn[axis, place] = 1
        turn[axis, 3] = start[axis] if axis < len(start) else 0
    kept[AFFINE] = affine @ turn
    return kept, ()
