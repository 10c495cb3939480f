"""The affine of an array in space, from indices to millimetres, and what crops and transpositions make of it.

NIfTI has the attribute `affine`: 4 × 4 numbers for indices of the array's own first three axes. MINC has a start, a
step and a direction for each named axis. Both survive in formats that know nothing of space, and become each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.geometry import Box
from reblock.storage.nifti_fields import NIFTI_HEADER, slope_and_intercept, turned_header

#: Name of the attribute; it is NIfTI's only beside a header: other people's attributes of this name stay as they are.
AFFINE = "affine"
#: The same for MINC, which has starts, steps and directions for each axis, and real ranges of slices.
MINC_STEP, MINC_RANGES = ":step", ("image-min", "image-max")
SPATIAL = ("xspace", "yspace", "zspace")
_NUMBER = (int, float, np.integer, np.floating)
#: The longest JSON text that is looked at.
_MAX_JSON = 1 << 22


def array_in(value: Any) -> npt.NDArray[np.float64] | None:
    """An array of numbers among attributes, which some formats keep as a list or as JSON text; None if it is none."""
    if isinstance(value, bytes | str):
        value = _from_json(value)
    if not isinstance(value, list | np.ndarray):
        return None
    try:
        found = np.asarray(value)
        return found.astype(np.float64) if found.dtype.kind in "iuf" else None
    except (TypeError, ValueError, OverflowError):
        return None


def _from_json(text: bytes | str) -> Any:
    """A list in JSON; None for any other text."""
    if len(text) > _MAX_JSON or text[:1] not in (b"[", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def affine_in(value: Any) -> npt.NDArray[np.float64] | None:
    """An affine among attributes; None if it is not a finite 4 × 4 matrix."""
    affine = array_in(value)
    return affine if affine is not None and affine.shape == (4, 4) and np.isfinite(affine).all() else None


def steps_of(affine: npt.NDArray[np.float64], world: Sequence[int]) -> list[tuple[float, float, list[float]]]:
    """Start, step and direction of each of three axes, which run along these axes in space, as MINC has them."""
    columns = affine[:3, :3]
    lengths = np.maximum(np.linalg.norm(columns, axis=0), np.finfo(float).tiny)
    signs = [-1.0 if columns[axis, place] < 0 else 1.0 for place, axis in enumerate(world)]
    steps = lengths * signs
    cosines = columns / steps
    starts = np.linalg.lstsq(cosines, affine[:3, 3], rcond=None)[0]
    return [(float(starts[k]), float(steps[k]), cosines[:, k].tolist()) for k in range(3)]


def affine_of_minc(attributes: Mapping[str, Any], axes: Sequence[str] | None) -> npt.NDArray[np.float64] | None:
    """The affine of starts, steps and directions, if the first three axes are those in space."""
    names = list(axes or ())[:3]
    if sorted(names) != list(SPATIAL) or not any(f"{name}{MINC_STEP}" in attributes for name in names):
        return None
    affine = np.eye(4)
    affine[:3] = 0
    try:
        for place, name in enumerate(names):
            usual = np.eye(3)[SPATIAL.index(name)]
            direction = np.asarray(attributes.get(f"{name}:direction_cosines", usual), np.float64).reshape(3)
            affine[:3, place] = direction * float(attributes.get(f"{name}{MINC_STEP}", 1))
            affine[:3, 3] += direction * float(attributes.get(f"{name}:start", 0))
    except (TypeError, ValueError):
        return None
    return affine if np.isfinite(affine).all() else None


def view_in_space(
    attributes: Mapping[str, Any], names: Sequence[str] | None, region: Box, axes: Sequence[int]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Attributes of `array[region].transpose(axes)`, and notes on what is lost; `names` are those of the axes."""
    kept, start = dict(attributes), region.start
    if names is not None and any(f"{name}{MINC_STEP}" in attributes for name in names):
        _crop_minc(kept, names, region)
    turned = list(axes) != sorted(axes)
    if NIFTI_HEADER not in attributes or not (any(start) or turned):
        return kept, ()
    affine = affine_in(attributes.get(AFFINE))
    if turned:
        kept[NIFTI_HEADER] = turned_header(attributes[NIFTI_HEADER], axes, placed=affine is not None)
    if affine is None:
        return kept, ()
    places = [*axes, *range(len(axes), 3)][:3]
    if sorted(places) != [0, 1, 2]:
        del kept[AFFINE], kept[NIFTI_HEADER]
        return kept, ("the place in space is not kept: the first three axes are no longer those in space",)
    turn = np.zeros((4, 4))
    turn[3, 3] = 1
    for place, axis in enumerate(places):
        turn[axis, place] = 1
        turn[axis, 3] = start[axis] if axis < len(start) else 0
    kept[AFFINE] = affine @ turn
    return kept, ()


def stacked_in_space(attributes: Mapping[str, Any], ndim: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Attributes of arrays with some axes that are stacked along a new first one, and notes on what is lost.

    Slices follow each other along the next axis in space.
    """
    return view_in_space(attributes, None, Box.whole((1,) * (ndim + 1)), (ndim, *range(ndim)))


def scaling_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What turns stored elements into real values, by name; elements with different ones do not mean the same."""
    found: dict[str, Any] = {}
    if (pair := slope_and_intercept(attributes.get(NIFTI_HEADER))) is not None:
        found["slope and intercept"] = pair
    if has_ranges(attributes):
        found |= {name: attributes.get(name) for name in (*MINC_RANGES, "image:valid_range")}
    return found


def has_ranges(attributes: Mapping[str, Any]) -> bool:
    """Whether there are real ranges of MINC."""
    return all(name in attributes for name in MINC_RANGES)


def slope_of_minc(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> tuple[float, float] | None:
    """Slope and intercept of the one real range of all slices; None if there is none, or if slices differ."""
    low, high = (_one_number(attributes.get(name)) for name in MINC_RANGES)
    if dtype.kind not in "iu" or low is None or high is None:
        return None
    info = np.iinfo(dtype)
    valid = array_in(attributes.get("image:valid_range", [info.min, info.max]))
    if valid is None or valid.shape != (2,) or not valid[0] < valid[1]:
        return None
    slope = (high - low) / float(valid[1] - valid[0])
    pair = slope, low - slope * float(valid[0])
    return pair if slope and np.isfinite(pair).all() else None


def _one_number(value: Any) -> float | None:
    """The number that all elements of an attribute are; None if it has none, or different ones."""
    numbers = np.array([value], np.float64) if isinstance(value, _NUMBER) else array_in(value)
    if numbers is None or not numbers.size or (numbers != numbers.flat[0]).any():
        return None
    return float(numbers.flat[0])


def _crop_minc(kept: dict[str, Any], names: Sequence[str], region: Box) -> None:
    """Move the starts, and cut coordinates and the ranges of slices."""
    slices = dict(zip(names, region.slices, strict=True))
    for name, part in slices.items():
        step, begin = kept.get(f"{name}{MINC_STEP}"), kept.get(f"{name}:start", 0)
        if part.start and isinstance(step, _NUMBER) and isinstance(begin, _NUMBER):
            kept[f"{name}:start"] = np.float64(begin + step * part.start)
        values = array_in(kept.get(name))
        if values is not None and values.ndim == 1:
            kept[name] = values[part]
    for name in MINC_RANGES:
        values, along = array_in(kept.get(name)), kept.get(f"{name}:dimorder")
        order = along.split(",") if isinstance(along, str) else list(names)
        if values is not None and 0 < values.ndim <= len(order) and all(n in slices for n in order[: values.ndim]):
            kept[name] = values[tuple(slices[n] for n in order[: values.ndim])]
