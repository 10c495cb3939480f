"""Spreading: the disks over which a target's blocks go, and from which a source's blocks may be read."""

from __future__ import annotations

import os
from collections.abc import Sequence

from reblock.errors import UsageError, option
from reblock.geometry.placement import FIXED_PLACEMENTS
from reblock.model import Format, Store
from reblock.model.disks import DEFAULT_PLACEMENT, MAX_DISKS, Disks, Spread, Spreadable
from reblock.storage.location import Location, Where, absolute
from reblock.storage.media.local import LOCAL
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import is_folder

#: Disks as callers give them: folders, or text with commas.
DisksGiven = str | Sequence[Where]


def parse_disks(disks: DisksGiven | None) -> tuple[str, ...]:
    """The folder of each disk, as a whole path; they must exist and differ."""
    if disks is None:
        return ()
    given = [part for one in ([disks] if isinstance(disks, str) else disks) for part in _parts(one)]
    if len(given) > MAX_DISKS:
        raise UsageError(f"{option('disks')}: {len(given):,} are more than the limit of {MAX_DISKS:,}")
    found: dict[str, str] = {}
    for one in given:
        if not one or "\0" in one or not medium_of(one).is_local:
            raise UsageError(f"{option('disks')}: each of them is a folder of this machine, not {one!r}")
        path = absolute(os.path.expanduser(one))
        real = LOCAL.place(path).real
        if not is_folder(LOCAL, real):
            raise UsageError(f"{option('disks')}: there is no folder {one}")
        if real in found:
            raise UsageError(f"{option('disks')}: {found[real]} and {one} are the same folder")
        found[real] = one
    return tuple(found)


def _parts(one: Where) -> list[str]:
    """The folders in an argument; only text is split, so that a path object may have commas."""
    return one.split(",") if isinstance(one, str) else [os.fspath(one)]


def allowed_folders(allow_external: Sequence[Where], disks: DisksGiven | None) -> tuple[Where, ...]:
    """The folders from which parts of a source may be read."""
    if isinstance(allow_external, str | os.PathLike):
        raise UsageError(f"allow_external is a list of folders, not {allow_external!r}")
    return (*allow_external, *parse_disks(disks))


def spread_format(
    kind: Format, disks: tuple[str, ...], placement: str | None, source: Store, target: Location | None
) -> Format:
    """The target's format with the disks over which its blocks go, if it can be spread."""
    if placement is not None and placement not in FIXED_PLACEMENTS:
        raise UsageError(f"{option('placement')} is {', '.join(FIXED_PLACEMENTS)}, not {placement!r}")
    if placement is not None and not disks:
        raise UsageError(f"{option('placement')} needs the disks: give {option('disks')}")
    if not disks:
        return kind
    if not isinstance(kind, Spreadable):
        if placement is None and isinstance(source, Spread) and source.disk_paths:
            return kind  # the source is read from there
        raise UsageError(
            f"{option('disks')} spreads the files of a block folder whose blocks are npy or raw, not {kind.name}: end "
            f"the target in /, or give {option('to_format', 'blocks')} or {option('block_format', 'npy')}"
        )
    if target is not None and not medium_of(target.path).is_local:
        raise UsageError(f"{option('disks')} is for local targets, not for {target.path}")
    made = kind.on_disks(Disks(disks, placement or DEFAULT_PLACEMENT))
    if not isinstance(made, Format):
        raise UsageError(f"format {kind.name} cannot be used on disks")
    return made
