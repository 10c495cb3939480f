"""Files and folders in a zarr array's folder that do not belong to the array."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from reblock.model.dataset import TableSchema, Tree
from reblock.model.medium import FOLDER, LINK, Medium
from reblock.model.roots import Roots
from reblock.storage.checks import load_json
from reblock.storage.media.files import disk_errors, is_number_below
from reblock.storage.media.local import draft_name
from reblock.storage.records import RECORD_FILE
from reblock.storage.trees import join
from reblock.storage.zarr.meta import Meta
from reblock.storage.zarr.nodes import UNFINISHED
from reblock.storage.zarr.tables import TableMeta
from reblock.storage.zarr.tree import read_node

#: Files of nodes, by version.
_OF_ARRAYS = {3: ("zarr.json",), 2: (".zarray", ".zattrs", RECORD_FILE)}
_OF_GROUPS = {3: ("zarr.json",), 2: (".zgroup", ".zattrs", ".zmetadata")}
#: Whether a name is valid at one level of the chunk keys.
Level = Callable[[str], bool]


def strangers(medium: Medium, path: str, parts: Sequence[str], meta: Meta, roots: Roots | None) -> Iterator[str]:
    """Names below a path that belong neither to the one array in it nor to the groups above the array.

    Chunks are recognised by name, without a `stat`.
    """
    for depth, part in enumerate(parts):
        folder = os.path.join(path, *parts[:depth])
        yield from _of_group(medium, folder, os.path.join(*parts[:depth], "."), part, meta.version, roots)
    folder = os.path.join(path, *parts)
    names = _OF_ARRAYS[meta.version]
    known = {*names, *map(draft_name, names)}
    yield from _below(medium, folder, "/".join(parts), _levels(meta), known)


def tree_strangers(medium: Medium, path: str, tree: Tree, roots: Roots | None) -> Iterator[str]:
    """Names below a path that belong to no node of a tree; a node that the tree lacks is a stranger, too."""
    known = {**dict.fromkeys(tree.groups), **dict.fromkeys(tree.arrays), **dict.fromkeys(tree.tables)}
    waiting = deque([""])
    while waiting:
        name = waiting.popleft()
        folder = os.path.join(path, name) if name else path
        node = read_node(medium, folder, name, roots)
        if node is not None and isinstance(node.content, Meta | TableMeta):
            names = _OF_ARRAYS[node.version]
            yield from _below(medium, folder, name, _levels(node.content), {*names, *map(draft_name, names)})
            continue
        if node is not None and isinstance(node.content, TableSchema):
            yield f"{name}, whose files are not known: {node.content.why}"
            continue
        files = {*_OF_GROUPS[3], *_OF_GROUPS[2], UNFINISHED}
        with disk_errors("list", folder):
            found = sorted(medium.entries(folder))
        for entry, kind in found:
            inner = join(name, entry)
            if kind == FOLDER and inner in known:
                waiting.append(inner)
            elif kind == FOLDER or entry not in {*files, *map(draft_name, files)}:
                yield inner


def _of_group(medium: Medium, folder: str, shown: str, part: str, version: int, roots: Roots | None) -> Iterator[str]:
    with disk_errors("list", folder):
        found = [(name, kind == FOLDER) for name, kind in medium.entries(folder)]
    known = {*_OF_GROUPS[version], *map(draft_name, _OF_GROUPS[version])}
    for name, is_folder in found:
        if name != part and (is_folder or name not in known):
            yield os.path.normpath(os.path.join(shown, name))
    for name, key in (("zarr.json", "attributes"), (".zattrs", None)):
        if (name, False) in found and name in known:
            document = load_json(os.path.join(folder, name), roots, medium=medium)
            if document.get(key) if key else document:
                yield f"attributes of the group in {os.path.normpath(os.path.join(shown, name))}"


def _levels(meta: Meta | TableMeta) -> list[Level]:
    """Checks for the parts of a key, one for each folder level."""
    counts = meta.counts if isinstance(meta, TableMeta) else meta.layout.objects.counts
    if meta.separator != "/" or not counts:
        return [lambda name: _is_key(name, meta, counts)]
    axes = [lambda name, count=count: is_number_below(name, count) for count in counts]
    return [*([lambda name: name == meta.prefix] if meta.prefix else []), *axes]


def _is_key(name: str, meta: Meta | TableMeta, counts: Sequence[int]) -> bool:
    if not counts:
        return name == meta.key(())
    parts = name.split(meta.separator)
    if meta.prefix and parts.pop(0) != meta.prefix:
        return False
    return len(parts) == len(counts) and all(map(is_number_below, parts, counts))


def _below(medium: Medium, folder: str, shown: str, levels: Sequence[Level], known: set[str]) -> Iterator[str]:
    fits, deeper = levels[0], levels[1:]
    with disk_errors("list", folder):
        found = medium.entries(folder)
    for name, kind in found:
        is_folder = kind == FOLDER
        where = f"{shown}/{name}" if shown else name
        if fits(name) and (is_folder == bool(deeper) or kind == LINK):
            if is_folder:
                yield from _below(medium, os.path.join(folder, name), where, deeper, set())
        elif is_folder or name not in known:
            yield where
