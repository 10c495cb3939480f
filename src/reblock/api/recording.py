"""Recording: an array of another library whose accesses are logged while it is used as before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reblock.api.access_log import READ, WRITE, AccessLog, location_name
from reblock.api.array import Array
from reblock.storage.location import Location, Where
from reblock.storage.objects.found import ArrayObject
from reblock.storage.objects.opening import find_object


class RecordedArray:
    """An array of zarr, h5py or numpy whose reads and writes by index are logged; all else is the array's own."""

    def __init__(self, array: Any, log: AccessLog) -> None:
        self._array, self._log = array, log

    def __getitem__(self, key: Any) -> Any:
        found = self._array[key]
        self._note(key, READ)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[key] = value
        self._note(key, WRITE)

    def _note(self, key: Any, op: str) -> None:
        box = bounding_box(key, self._log.shape)
        if box is not None:
            self._log.note(*box, op)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._array, name)

    def __len__(self) -> int:
        return len(self._array)

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        self._note(..., READ)
        return self._array.__array__(*arguments, **options)

    def __repr__(self) -> str:
        return f"<recorded {self._array!r}>"


def record(array: Array | ArrayObject, *, log: Where) -> Any:
    """Wrap a zarr, h5py or numpy array so that its accesses by index are appended to a log.

    The result is used like the array. `reblock advise --log LOG` turns the log into advice. Several processes may
    write one log. Reads with lists or masks are logged by the box around them; accesses by other means, such as
    `oindex` or `read_direct`, are not logged.

    Examples
    --------
    >>> import numpy, pathlib, reblock, tempfile
    >>> log = pathlib.Path(tempfile.mkdtemp(), "access.jsonl")
    >>> array = reblock.record(numpy.zeros((10, 20)), log=log)
    >>> array[3:5, 7].shape
    (2,)
    >>> '"start": [3, 7], "stop": [5, 8]' in log.read_text()
    True
    """
    if isinstance(array, Array):
        return array.logged(log)
    found = find_object(array)
    where = found.where
    if where is None and found.backing:
        # A file that is open for writing is read through the object, but has a name all the same.
        inner = str(getattr(array, "path", "") or getattr(array, "name", "") or "")
        where = Location(found.backing[0], inner) if "::" not in found.backing[0] + inner else None
    name = found.name if where is None else location_name(str(where))
    return RecordedArray(array, AccessLog(log, name, found.shape))


def bounding_box(key: Any, shape: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """The box around the elements that an index selects; None if it selects none, or is of an unknown kind."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [one for one in keys if one is not None and not isinstance(one, str)]
    used = sum(_axes(one) for one in keys)
    places = [n for n, one in enumerate(keys) if one is Ellipsis]
    place = places[0] if places else len(keys)
    keys[place : place + len(places[:1])] = [slice(None)] * (len(shape) - used)
    start: list[int] = []
    stop: list[int] = []
    for one in keys:
        bounds = _bounds(one, shape[len(start) : len(start) + _axes(one)])
        if bounds is None:
            return None
        start += bounds[0]
        stop += bounds[1]
    return (start, stop) if len(start) == len(shape) else None


def _axes(key: Any) -> int:
    """Number of axes that one part of an index is for."""
    if key is Ellipsis:
        return 0
    return max(np.ndim(key), 1) if isinstance(key, np.ndarray) and key.dtype.kind == "b" else 1


def _bounds(key: Any, shape: Sequence[int]) -> tuple[list[int], list[int]] | None:
    if len(shape) == 0:
        return None
    if isinstance(key, slice):
        try:
            taken = range(shape[0])[key]
        except (TypeError, ValueError):
            return None
        return ([min(taken)], [max(taken) + 1]) if taken else None
    try:
        chosen = np.asarray(key)
    except (TypeError, ValueError):
        return None
    if chosen.dtype.kind == "b":
        places = [axis for axis in np.nonzero(chosen) if len(axis)]
        if len(places) != max(chosen.ndim, 1) or chosen.shape != tuple(shape[: chosen.ndim]):
            return None
        return [int(one.min()) for one in places], [int(one.max()) + 1 for one in places]
    if chosen.dtype.kind not in "iu" or not chosen.size:
        return None
    low, high = int(chosen.min()), int(chosen.max())
    if low < 0:
        positive = np.where(chosen < 0, chosen + shape[0], chosen)
        low, high = int(positive.min()), int(positive.max())
    return ([low], [high + 1]) if low >= 0 and high < shape[0] else None
