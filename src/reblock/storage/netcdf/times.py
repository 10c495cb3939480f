"""Dates and durations in NetCDF: integers with the attributes of CF, which say what they count."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from reblock.errors import UsageError, option
from reblock.model.schema import Schema
from reblock.storage.conventions import NAT, time_attributes


def times_as_integers(schema: Schema, asked: Collection[str], holder: str) -> Schema:
    """The schema of the integers, if an array has dates or durations; else the schema itself."""
    dtype = schema.dtype
    if dtype.kind not in "mM":
        return schema
    added = time_attributes(dtype)
    if added is None or "dtype" in asked:
        raise UsageError(
            f"{holder} has no dates or durations such as {dtype}: convert to zarr first, with "
            f"{option('dtype', f'{dtype.kind}8[s]')} for example; dates from D to ns then become int64 here"
        )
    notes = [f"attribute {name!r} was replaced by that of the dates" for name in added if name in schema.attributes]
    told = " ".join(value for value in added.values() if isinstance(value, str))
    notes.append(f"{dtype} became int64 with CF attributes ({told}), NaT is {NAT}: {holder} has no such type")
    fill = schema.fill_value
    return replace(
        schema,
        dtype=np.dtype(np.int64).newbyteorder(dtype.byteorder),
        fill_value=None if fill is None else np.array(fill, dtype.newbyteorder("=")).view(np.int64)[()],
        attributes={**schema.attributes, **added},
        notes=(*schema.notes, *notes),
    )
