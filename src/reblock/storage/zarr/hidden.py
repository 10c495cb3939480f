"""What reblock stores with a zarr node and other readers ignore: the record of a run, and types of attributes.

::

    array, v3    zarr.json: "reblock": {"must_understand": false, "digest": …, "attribute_types": …, "netcdf": …}
    array, v2    .reblock.json beside .zarray; also "plain_fill"
    groups       member "reblock" of the consolidated metadata of the top group, since zarr-python reads no group that
                 has members of its own: {"groups": {NAME: {"attribute_types": …, "dimensions": …}}, "digest": …}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reblock.model.schema import Record
from reblock.storage.records import record_to_json, take_record
from reblock.storage.typed_attributes import decode_attributes

#: Member with the types of attributes that JSON does not tell.
TYPES = "attribute_types"
#: Member that says that single attribute values are arrays of length one in the NetCDF file that they came from.
_NETCDF = "netcdf"
#: Member that says that the fill value does not stand for missing elements, which xarray takes it for in zarr v2.
PLAIN_FILL = "plain_fill"


def hidden_members(record: Record, types: Mapping[str, Any], *, netcdf: bool = False) -> dict[str, Any]:
    """The members to store with a node; empty if there is nothing to say."""
    return {
        **record_to_json(record),
        **({TYPES: dict(types)} if types else {}),
        **({_NETCDF: True} if netcdf and types else {}),
    }


def take_hidden(attributes: Mapping[str, Any], stored: Any) -> tuple[Record, dict[str, Any], bool]:
    """The record of a node, its attributes with their types, and whether it came from a NetCDF file."""
    record, rest = take_record(attributes, stored)
    found = stored if isinstance(stored, Mapping) else {}
    return record, decode_attributes(rest, found.get(TYPES)), found.get(_NETCDF) is True


def has_plain_fill(stored: Any) -> bool:
    """Whether the fill value of a node does not stand for missing elements."""
    return isinstance(stored, Mapping) and stored.get(PLAIN_FILL) is True
