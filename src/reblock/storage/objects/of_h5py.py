"""h5py.Dataset: reopened by path if its file is a plain local one that is open for reading only."""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.errors import FormatError, UsageError
from reblock.model.schema import Schema
from reblock.storage.hdf5.metadata import facts_of, schema_of
from reblock.storage.library import library_errors
from reblock.storage.location import Location, absolute
from reblock.storage.media.local import LOCAL
from reblock.storage.objects.found import FoundObject

#: Drivers of HDF5 that read one local file.
_FILE_DRIVERS = ("sec2", "stdio")


def find(dataset: Any) -> FoundObject:
    """Describe a dataset; UsageError if its file is closed."""
    if not dataset:
        raise UsageError("the h5py.Dataset is closed: open its file again, or give its path")
    name = f"<h5py.Dataset {_plain(dataset.name or 'without a name')} in {_plain(str(dataset.file.filename))}>"
    with library_errors("h5py", name):
        if dataset.shape is None:
            raise FormatError(f"{name} is a null dataset: it has no elements and no shape")
        why = _why_not_by_path(dataset)
        path = absolute(dataset.file.filename)
        return FoundObject(
            name,
            "h5py",
            "hdf5",
            lambda region: dataset[region],
            lambda: _describe(dataset, name),
            dataset.shape,
            np.dtype(dataset.dtype),
            dataset.chunks is not None,
            None if why else Location(path, dataset.name),
            why,
            (path,) if dataset.file.driver != "fileobj" else (),
        )


def _why_not_by_path(dataset: Any) -> str:
    """Why the file cannot be opened again by its path; empty if it can."""
    file = dataset.file
    if file.driver not in _FILE_DRIVERS:
        return f"HDF5 reads it with the driver {file.driver}, not from a local file"
    if file.mode != "r":
        return "its file is open for writing; open it with mode 'r'"
    if not dataset.name:
        return "the dataset has no name"
    if "::" in file.filename or "::" in dataset.name:
        return "its name contains '::'"
    try:
        opened, now = LOCAL.status(f"/dev/fd/{file.id.get_vfd_handle()}"), LOCAL.status(absolute(file.filename))
    except FileNotFoundError:
        return f"{file.filename} is not where it was"
    return "" if opened == now else f"{file.filename} is another file by now"


def _describe(dataset: Any, name: str) -> Schema:
    with library_errors("h5py", name):
        return schema_of(facts_of(dataset, name), name)


def _plain(text: str) -> str:
    """A name that cannot be taken for PATH::INNER."""
    return text.replace("::", ": :")
