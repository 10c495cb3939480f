"""Records as formats store them: the digest and the job of an array, apart from its own attributes.

::

    zarr v3    zarr.json: "reblock": {"must_understand": false, "digest": "rb1-…", "job": "…"}
    zarr v2    .reblock.json beside .zarray: {"digest": "rb1-…", "job": "…"}
    HDF5       the comment of the dataset, the same as JSON
    blocks     reblock.json: "reblock_digest", "reblock_job"
    npy        no place

In zarr, the types of attributes that JSON does not tell are beside it: "attribute_types" and "netcdf".

Readers show none of these among an array's attributes. Until 0.1 the digest was an attribute of zarr arrays and HDF5
datasets; that attribute is still read, and is not mistaken for the user's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reblock.model.schema import Record

#: The attribute that held the digest until 0.1.
ATTRIBUTE = "reblock_digest"
#: Member of a `zarr.json`.
MEMBER = "reblock"
#: File beside a `.zarray`.
RECORD_FILE = ".reblock.json"
_DIGEST = re.compile(r"rb[td]?[0-9]{1,4}-[0-9a-f]{8,128}")
_JOB = re.compile(r"[!-~]{1,200}")


def record_to_json(record: Record) -> dict[str, Any]:
    """The members of a record that are not None."""
    return {key: text for key, text in (("digest", record.digest), ("job", record.job)) if text is not None}


def record_from_json(value: Any) -> Record:
    """A record from its stored form; invalid members are ignored, since a digest of another version is no damage."""
    found = value if isinstance(value, Mapping) else {}
    return Record(_matching(_DIGEST, found.get("digest")), _matching(_JOB, found.get("job")))


def take_record(attributes: Mapping[str, Any], stored: Any = None) -> tuple[Record, dict[str, Any]]:
    """The record of an array, and its attributes without ours; a copy of the array gets its own."""
    found = record_from_json(stored)
    record = Record(found.digest or _matching(_DIGEST, attributes.get(ATTRIBUTE)), found.job)
    return record, {key: value for key, value in attributes.items() if key != ATTRIBUTE}


def _matching(pattern: re.Pattern[str], value: Any) -> str | None:
    return str(value) if isinstance(value, str) and pattern.fullmatch(value) else None
