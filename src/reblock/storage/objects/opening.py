"""Opening an object: recognise it by its type, reopen it by path if that is the same array, else read through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from reblock.errors import ExternalError, FormatError, StorageError, UsageError
from reblock.model.store import Store
from reblock.storage import registry
from reblock.storage.checks import MAX_RANK, dtype_problem
from reblock.storage.objects.found import FoundObject
from reblock.storage.objects.store import ObjectStore

#: Package and name of each type, and the module here that describes it. Comparing names imports nothing.
_KINDS = {
    ("h5py", "Dataset"): "reblock.storage.objects.of_h5py",
    ("zarr", "Array"): "reblock.storage.objects.of_zarr",
    ("numpy", "ndarray"): "reblock.storage.objects.of_numpy",
}
#: Other types of these libraries that a caller may pass by mistake, and what to pass instead.
_NEAR = {
    ("h5py", "Group"): "one of its datasets, such as file['data']",
    ("zarr", "Group"): "one of its arrays, such as group['data']",
    ("zarr", "AsyncArray"): "a zarr.Array",
}
_ACCEPTED = "a path, a reblock.Array, an h5py.Dataset, a zarr.Array or a numpy.ndarray"


def open_object(source: Any, allow: Sequence[str] = ()) -> Store:
    """The store of an h5py.Dataset, a zarr.Array or a numpy.ndarray; UsageError for anything else."""
    found = find_object(source)
    _check(found)
    why = found.why
    if found.where is not None:
        try:
            store = registry.open(str(found.where), found.format, allow)
        except (ExternalError, UsageError):
            raise
        except StorageError as error:
            why = f"reblock cannot read {found.where} itself: {error}"
        else:
            if store.schema.shape == found.shape and _native(store.schema.dtype) == _native(found.dtype):
                return store
            why = f"{found.where} is another array by now"
    schema = found.describe()
    note = f"{found.name} is read through the object, and such a run cannot be resumed: {why}"
    return ObjectStore(found, replace(schema, notes=(*schema.notes, note)))


def find_object(source: Any) -> FoundObject:
    """What is known of an object of h5py, zarr or numpy; UsageError for anything else."""
    names = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(source).__mro__]
    for name in names:
        if name in _KINDS:
            found: FoundObject = import_module(_KINDS[name]).find(source)
            return found
    near = next((f": give {_NEAR[name]}" for name in names if name in _NEAR), "")
    kind = type(source)
    raise UsageError(f"a source is {_ACCEPTED}, not {kind.__module__}.{kind.__qualname__}{near}")


def _check(found: FoundObject) -> None:
    if problem := dtype_problem(found.dtype):
        raise FormatError(f"{found.name}: {problem}")
    if len(found.shape) > MAX_RANK:
        raise FormatError(f"{found.name}: {len(found.shape)} axes are more than the {MAX_RANK} that are supported")


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("=")
