"""Datasets whose elements cannot be cut: text of any length, records and enumerations, described as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.recfunctions import repack_fields

from reblock.errors import FormatError
from reblock.storage.hdf5.file import library
from reblock.storage.hdf5.metadata import read_metadata, read_record
from reblock.storage.hdf5.sandbox.wire import pack

#: The most names of an enumeration, and the most fields of a record.
_MANY_NAMES = 10_000


def table_facts(dataset: Any) -> dict[str, Any] | None:
    """What a dataset is, if its elements cannot be cut; None if they can. FormatError if it cannot be copied at all."""
    h5py = library()
    try:
        dtype = dataset.dtype
    except TypeError as error:
        raise FormatError(" ".join(str(error).split())) from None
    if dataset.shape is None:
        return None
    kind, details = _kind(h5py, dtype)
    if not kind:
        return None
    attributes, axes, notes = read_metadata(dataset)
    return {
        "kind": kind,
        "dtype": packed(dtype) if kind != "text" else "O",
        "details": details,
        "attributes": {name: pack(value) for name, value in attributes.items()},
        "axes": axes,
        "record": read_record(dataset),
        "notes": notes,
        "padding": dtype.itemsize - repack_fields(dtype, recurse=True).itemsize if kind == "record" else 0,
    }


def _kind(h5py: Any, dtype: np.dtype[Any]) -> tuple[str, dict[str, Any]]:
    if (text := h5py.check_string_dtype(dtype)) is not None:
        return ("text", {"encoding": text.encoding}) if text.length is None else ("", {})
    if h5py.check_ref_dtype(dtype) is not None:
        raise FormatError("references are addresses inside their file, so they are not copied")
    if h5py.check_vlen_dtype(dtype) is not None:
        raise FormatError("sequences of varying length are not supported")
    names = h5py.check_enum_dtype(dtype)
    if names is not None and dtype.kind != "b":
        if len(names) > _MANY_NAMES:
            raise FormatError(f"an enumeration of {len(names):,} names, the limit is {_MANY_NAMES:,}")
        return "enum", {"names": {str(name): int(value) for name, value in names.items()}}
    if dtype.fields is not None:
        _check_record(h5py, dtype)
        return "record", {}
    return "", {}


def _check_record(h5py: Any, dtype: np.dtype[Any]) -> None:
    if dtype.fields is None:
        if dtype.subdtype is not None:
            _check_record(h5py, dtype.subdtype[0])
        elif dtype.hasobject:
            what = "text of any length" if h5py.check_string_dtype(dtype) else "references or sequences"
            raise FormatError(f"records that hold {what} are not supported")
        return
    if len(dtype.fields) > _MANY_NAMES:
        raise FormatError(f"records of {len(dtype.fields):,} fields, the limit is {_MANY_NAMES:,}")
    for field in dtype.fields.values():
        _check_record(h5py, field[0])


def packed(dtype: np.dtype[Any]) -> Any:
    """A type without padding between its fields, as JSON."""
    return _json(np.lib.format.dtype_to_descr(repack_fields(dtype, align=False, recurse=True)))


def _json(descr: Any) -> Any:
    if isinstance(descr, list | tuple):
        return [_json(one) for one in descr]
    return descr
