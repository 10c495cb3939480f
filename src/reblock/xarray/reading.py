"""Reading: selections as xarray makes them, each a planned read of the elements that are wanted and of no others.

::

    outer     isel(time=[9, 0, 3], lat=slice(2, 8))      places along each axis: one read
    points    isel(lat=DataArray([1, 70], dims="p"),     places of points: one read for each cell of chunks with points,
                   lon=DataArray([5, 90], dims="p"))     because all pairs of places would be many more elements
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.array import Array
from reblock.engine import Step
from reblock.geometry import Box
from reblock.geometry.axis import Ints

#: Points are read in several parts if one read takes more elements than this, and many times the number of points.
_MANY_ELEMENTS = 1 << 16
_MANY_TIMES = 8

#: A selection along one axis.
Key = int | slice | npt.NDArray[Any]


def read_outer(array: Array, keys: Sequence[Key]) -> npt.NDArray[Any]:
    """The elements at some places along each axis, in any order and also several times; an integer drops its axis."""
    places = [_places(key, length) for key, length in zip(keys, array.shape, strict=True)]
    if not all(map(len, places)):
        kept = [one for one, key in zip(places, keys, strict=True) if not _is_integer(key)]
        return np.empty([len(one) for one in kept], array.dtype)
    starts, stops, steps, orders = zip(*map(_sorted, places), strict=True) if places else ((), (), (), ())
    found = array.load_box(Box(starts, stops), steps)
    for axis in reversed(range(array.ndim)):
        order = 0 if _is_integer(keys[axis]) else orders[axis]
        whole = (slice(None),) * axis
        found = found.take(order, axis) if isinstance(order, np.ndarray) else found[(*whole, order)]
    return found


def _sorted(places: range | Ints) -> tuple[int, int, Step, slice | Ints]:
    """The range that is read of an axis, the step in it, and the order of what was read."""
    if isinstance(places, range):
        low, high = min(places), max(places)
        return low, high + 1, abs(places.step), slice(None, None, -1 if places.step < 0 else 1)
    wanted, order = np.unique(places, return_inverse=True)
    low, high = int(wanted[0]), int(wanted[-1])
    step = 1 if high - low + 1 == len(wanted) else (wanted - low).astype(np.int64)
    same = len(order) == len(wanted) and bool((np.diff(order) == 1).all())
    return low, high + 1, step, slice(None) if same else order.astype(np.int64)


def read_points(array: Array, keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The elements at places that broadcast to the shape of the result.

    An axis whose places vary along a dimension of their own is no axis of points: those of a transposed array are not.
    """
    shape = np.broadcast_shapes(*(key.shape for key in keys))
    places = [_squeezed(_whole(key, length), len(shape)) for key, length in zip(keys, array.shape, strict=True)]
    along = [{d for d, n in enumerate(one.shape) if n != 1} for one in places]
    own = {
        axis: min(dims)
        for axis, dims in enumerate(along)
        if len(dims) == 1 and not any(dims & other for k, other in enumerate(along) if k != axis)
    }
    shared = [d for d in range(len(shape)) if d not in own.values()]
    axes = [axis for axis in range(array.ndim) if axis not in own]
    varying = set().union(*(along[axis] for axis in axes))
    lengths = [n if d in varying else 1 for d, n in enumerate(shape)]
    if varying:
        points = [np.broadcast_to(places[axis], lengths).ravel() for axis in axes]
        found = _read_groups(array, places, axes, np.stack(points, axis=1))
    else:
        found = read_outer(array, [one.ravel() if axis in own else one.item() for axis, one in enumerate(places)])
    made = found.reshape(*(lengths[d] for d in shared), *(shape[d] for d in own.values()))
    made = made.transpose(np.argsort([*shared, *own.values()]))
    return made if made.shape == shape else np.broadcast_to(made, shape).copy()


def _read_groups(array: Array, places: Sequence[Ints], axes: Sequence[int], points: Ints) -> npt.NDArray[Any]:
    """The elements at points along some axes, and at all places along the others, which come last."""
    keys: list[Key] = [one.ravel() for one in places]
    rest = [places[axis].size for axis in range(array.ndim) if axis not in axes]
    out = np.empty((len(points), *rest), array.dtype)
    for group in _groups(points, [_cell(array, axis) for axis in axes]):
        inside = []
        for axis, one in zip(axes, points[group].T, strict=True):
            keys[axis], order = np.unique(one, return_inverse=True)
            inside.append(order)
        out[group] = np.moveaxis(read_outer(array, keys), axes, range(len(axes)))[tuple(inside)]
    return out


def _squeezed(places: Ints, ndim: int) -> Ints:
    """Places with the length 1 along dimensions along which they do not vary."""
    places = places.reshape((1,) * (ndim - places.ndim) + places.shape)
    for d in range(ndim):
        first = places[(slice(None),) * d + (slice(0, 1),)]
        if places.shape[d] > 1 and (places == first).all():
            places = first
    return places


def _groups(points: Ints, cells: Sequence[int]) -> Iterator[Ints]:
    """Numbers of points that are read together."""
    if not len(points):
        return
    _, group = np.unique(points // np.array(cells), axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    for one in np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1):
        yield from _halves(points, one)


def _halves(points: Ints, group: Ints) -> Iterator[Ints]:
    """A group, or parts of it that take fewer elements."""
    counts = [len(np.unique(one)) for one in points[group].T]
    if prod(counts) <= max(_MANY_ELEMENTS, _MANY_TIMES * len(group)) or max(counts) == 1:
        yield group
        return
    along = points[group, int(np.argmax(counts))]
    order, middle = np.argsort(along, kind="stable"), len(group) // 2
    yield from _halves(points, group[order[:middle]])
    yield from _halves(points, group[order[middle:]])


def _cell(array: Array, axis: int) -> int:
    cut = array.chunks[axis]
    return max(cut if isinstance(cut, int) else max(cut, default=1), 1)


def _is_integer(key: Key) -> bool:
    return not isinstance(key, slice) and np.ndim(key) == 0


def _places(key: Key, length: int) -> range | Ints:
    if isinstance(key, slice):
        return range(*key.indices(length))
    found = _whole(key, length)
    return range(int(found), int(found) + 1) if found.ndim == 0 else found


def _whole(key: Any, length: int) -> Ints:
    """Places counted from the start of an axis."""
    found = np.asarray(key, np.int64)
    if found.size and not (-length <= found.min() and found.max() < length):
        raise IndexError(f"index {found.min()}..{found.max()} is outside of an axis of {length}")
    return np.where(found < 0, found + length, found)
