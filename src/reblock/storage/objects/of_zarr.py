"""zarr.Array: reopened by path if its store is a local folder."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from reblock.errors import StorageError
from reblock.model.schema import Schema
from reblock.storage.library import library_errors
from reblock.storage.location import Location, absolute
from reblock.storage.objects.found import FoundObject
from reblock.storage.zarr.library import fetching, metadata_documents
from reblock.storage.zarr.meta import parse_v2, parse_v3

#: Stores of zarr-python 3 and 2 that are local folders of chunk files, and their attribute with the folder's path.
_FOLDERS = {"LocalStore": "root", "DirectoryStore": "path", "NestedDirectoryStore": "path"}


def find(array: Any) -> FoundObject:
    """Describe an array."""
    inner = str(array.path or "")
    kind = type(array.store).__name__
    # Stores around other stores, such as a cache, have an address of their own that is no folder.
    folder = getattr(array.store, _FOLDERS[kind], None) if kind in _FOLDERS else None
    shown = f" {inner.replace('::', ': :')}" if inner else ""
    name = f"<zarr.Array{shown} in a {kind}>"
    with library_errors("zarr-python", name):
        path = "" if folder is None else absolute(str(folder))
        why = "" if path else f"a {kind} is not a local folder"
        if "::" in path + inner:
            why = "its name contains '::'"
        version = _version(array)
        return FoundObject(
            name,
            "zarr-python",
            "zarr2" if version == 2 else "zarr",
            fetching(array),
            lambda: _describe(array, version, name),
            tuple(array.shape),
            np.dtype(array.dtype),
            True,
            None if why else Location(path, inner),
            why,
            (path,) if path else (),
        )


def _version(array: Any) -> int:
    metadata = getattr(array, "metadata", None)
    return 2 if metadata is None else int(metadata.zarr_format)


def _describe(array: Any, version: int, name: str) -> Schema:
    """The schema from the array's own metadata; without a codec if reblock does not know it."""
    with library_errors("zarr-python", name):
        documents = metadata_documents(array)
        try:
            if version == 2:
                attributes = json.loads(documents(".zattrs") or "{}")
                return parse_v2(json.loads(documents(".zarray")), attributes, where=name).schema
            return parse_v3(json.loads(documents("zarr.json")), where=name).schema
        except StorageError as error:
            note = f"its codec is not kept, so one must be given: {error}"
            chunks = tuple(max(n, 1) for n in array.chunks)
            attributes = dict(array.attrs)
            return Schema(tuple(array.shape), np.dtype(array.dtype), chunks, attributes=attributes, notes=(note,))
