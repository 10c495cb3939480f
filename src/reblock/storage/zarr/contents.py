"""Files and folders in a zarr array's folder that do not belong to the array."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from reblock.model.roots import Roots
from reblock.storage.checks import load_json
from reblock.storage.media.files import disk_errors, is_number_below
from reblock.storage.records import FILE
from reblock.storage.zarr.meta import Meta

_OF_ARRAYS = {3: ("zarr.json",), 2: (".zarray", ".zattrs", FILE)}
_OF_GROUPS = {3: ("zarr.json",), 2: (".zgroup", ".zattrs", ".zmetadata")}
#: Whether a name is valid at one level of the chunk keys.
Level = Callable[[str], bool]


def strangers(path: str, parts: Sequence[str], meta: Meta, roots: Roots) -> Iterator[str]:
    """Names below a path that belong neither to the one array in it nor to the groups above the array.

    Chunks are recognised by name, without a `stat`.
    """
    for depth, part in enumerate(parts):
        folder = os.path.join(path, *parts[:depth])
        yield from _of_group(folder, os.path.relpath(folder, path), part, meta.version, roots)
    folder = os.path.join(path, *parts)
    names = _OF_ARRAYS[meta.version]
    known = {*names, *(f".{name}.draft" for name in names)}
    yield from _below(folder, "/".join(parts), _levels(meta), known)


def _of_group(folder: str, shown: str, part: str, version: int, roots: Roots) -> Iterator[str]:
    with disk_errors("list", folder), os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    known = {*_OF_GROUPS[version], *(f".{name}.draft" for name in _OF_GROUPS[version])}
    for name, is_folder in found:
        if name != part and (is_folder or name not in known):
            yield os.path.normpath(os.path.join(shown, name))
    for name, key in (("zarr.json", "attributes"), (".zattrs", None)):
        if (name, False) in found and name in known:
            document = load_json(os.path.join(folder, name), roots)
            if document.get(key) if key else document:
                yield f"attributes of the group in {os.path.normpath(os.path.join(shown, name))}"


def _levels(meta: Meta) -> list[Level]:
    """Checks for the parts of a key, one for each folder level."""
    counts = meta.layout.objects.counts
    if meta.separator != "/" or not counts:
        return [lambda name: _is_key(name, meta, counts)]
    axes = [lambda name, count=count: is_number_below(name, count) for count in counts]
    return [*([lambda name: name == meta.prefix] if meta.prefix else []), *axes]


def _is_key(name: str, meta: Meta, counts: Sequence[int]) -> bool:
    if not counts:
        return name == meta.key(())
    parts = name.split(meta.separator)
    if meta.prefix and parts.pop(0) != meta.prefix:
        return False
    return len(parts) == len(counts) and all(map(is_number_below, parts, counts))


def _below(folder: str, shown: str, levels: Sequence[Level], known: set[str]) -> Iterator[str]:
    fits, deeper = levels[0], levels[1:]
    with disk_errors("list", folder), os.scandir(folder) as entries:
        for entry in entries:
            name, is_folder = entry.name, entry.is_dir(follow_symlinks=False)
            where = f"{shown}/{name}" if shown else name
            if fits(name) and (is_folder == bool(deeper) or entry.is_symlink()):
                if is_folder:
                    yield from _below(entry.path, where, deeper, set())
            elif is_folder or name not in known:
                yield where
