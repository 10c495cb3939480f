"""Inside: a new array in an existing group is a target of its own, built beside its place in the group.

::

    group.zarr::ocean/deep/salt      and group.zarr/ocean exists
    → target group.zarr/ocean/deep, inner path salt: staged in group.zarr/ocean/.deep.reblock, published by one rename

Readers of the group see nothing of it until then. Afterwards `announce` adds it to the joint index of the groups above.
"""

from __future__ import annotations

import os

from reblock.errors import UsageError
from reblock.model.dataset import GroupFormat
from reblock.model.store import Format
from reblock.storage import registry
from reblock.storage.location import Location
from reblock.storage.media.registry import medium_of, target_medium
from reblock.storage.media.small import exists


def place_inside(where: Location, kind: Format) -> tuple[Location, Format]:
    """Where an array is built, and its format: that of the group, if the location is inside an existing one."""
    medium = medium_of(where.path)
    if not where.inner or not isinstance(kind, GroupFormat) or not exists(medium, where.path):
        return where, kind
    elsewhere = registry.elsewhere(medium)
    found = kind.group_format(where.path, **elsewhere)
    if found is None:
        return where, kind
    parts, folder = where.inner.split("/"), where.path
    for count, part in enumerate(parts, 1):
        folder = os.path.join(folder, part)
        rest = "/".join(parts[count:])
        if target_medium(folder).workspace(folder).is_there or not exists(medium, folder):
            return Location(folder, rest), found
        if rest and kind.group_format(folder, **elsewhere) is None:
            raise UsageError(f"{folder} exists and is not a group: {where} cannot be made below it")
    return Location(folder), found


def announce(where: Location, kind: Format) -> None:
    """Add a published array to the joint index of the groups above it, if there is one; may be called again."""
    if isinstance(kind, GroupFormat):
        kind.announce(where.path, **registry.elsewhere(medium_of(where.path)))
