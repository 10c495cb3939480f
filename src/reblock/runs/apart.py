"""Apart: check that nothing a run writes overlaps with anything its source reads."""

from __future__ import annotations

import os
from collections.abc import Sequence

from reblock.errors import UsageError
from reblock.model import Composite, ObjectBound, Store, TreeStore
from reblock.model.disks import Spread
from reblock.model.workspace import Place, TargetMedium
from reblock.storage.location import Location
from reblock.storage.media.registry import medium_of
from reblock.storage.roots import FileRoots

#: Something that is written: its description and its place.
Written = tuple[str, Place]


def check_apart(source: Store | TreeStore, target: Location, places: Sequence[tuple[str, str]]) -> None:
    """Raise UsageError if the target or one of `places` (a description and a key) overlaps with the source."""
    named = not isinstance(source, ObjectBound | Composite)
    medium = medium_of(Location.parse(source.location).path) if named else source.medium
    if not isinstance(medium, TargetMedium):
        return  # it is only read
    reads = source.backing if isinstance(source, ObjectBound) else _own_paths(source)
    keys = [("target", str(target), target.path), *((what, key, key) for what, key in places)]
    written = [(f"{what} {shown}", medium.place(key)) for what, shown, key in keys if medium_of(key) is medium]
    where = Location.parse(source.location)
    for read in reads:
        _check(source, written, medium.place(read), "" if read == where.path else f" at {read}, which it reads")
    allowed = [medium.place(one) for one in source.roots.allowed] if isinstance(source.roots, FileRoots) else []
    # Links lead only into allowed folders, so they matter only if the run writes there.
    near = [(what, here) for what, here in written if any(map(here.meets, allowed))]
    for link in medium.links(os.path.join(where.path, where.inner)) if near else ():
        there = medium.place(link)
        _check(source, near, there, f" at {there.real}, where its link {link} leads")


def _check(source: Store | TreeStore, written: Sequence[Written], there: Place, why: str) -> None:
    for what, here in written:
        if here.meets(there):
            raise UsageError(f"source {source.location} and {what} overlap{why}: write elsewhere, then replace")


def _own_paths(source: Store | TreeStore) -> list[str]:
    """The file or folder of a source, and the other files that it names."""
    roots = [source.roots.real] if isinstance(source.roots, FileRoots) else []
    disks = source.disk_paths if isinstance(source, Spread) else ()
    paths = source.member_paths if isinstance(source, Composite) else [Location.parse(source.location).path]
    return list(dict.fromkeys([*paths, *roots, *source.described_by, *disks]))
