"""Everything below a group of an HDF5 file in one pass: groups, datasets, named types and links, with their metadata.

This runs in the process that reads other people's files; its result is JSON, not yet checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from reblock.errors import FormatError, ReblockError
from reblock.storage.hdf5.axes import KnownMembers
from reblock.storage.hdf5.file import FAILURES, library, parts_of, resolve
from reblock.storage.hdf5.metadata import facts_of, read_attributes, read_record
from reblock.storage.hdf5.plugins import load_plugins
from reblock.storage.hdf5.sandbox.wire import pack
from reblock.storage.hdf5.table_facts import table_facts

#: The most objects that are described.
MANY_NODES = 100_000
#: The deepest nesting of groups.
_DEEPEST = 64
_LIST = "DIMENSION_LIST"


def survey(file: Any, shown: str, inner: str) -> Iterator[dict[str, Any]]:
    """The nodes below a group, and the group itself, parents first; members in the order of their creation if known.

    Elsewhere if the path leads into another file.
    """
    h5py = library()
    top = resolve(file, shown, parts_of(inner))
    if not isinstance(top, h5py.Group):
        raise FormatError(f"{shown}::{inner} is a dataset, not a group")
    count = 0
    known: KnownMembers = {}
    seen = {h5py.h5o.get_info(top.id).addr}
    todo = deque([("", top)])
    while todo:
        name, here = todo.popleft()
        yield {"name": name, "kind": "group", "record": read_record(here), **_attributes(here)}
        for child in _members(here):
            path = f"{name}/{child}" if name else child
            count += 1
            if count > MANY_NODES or path.count("/") > _DEEPEST:
                raise FormatError(f"{shown}: more than {MANY_NODES:,} objects, or groups nested deeper than {_DEEPEST}")
            link = here.id.links.get_info(child.encode("utf-8", "surrogateescape"))
            if link.type != h5py.h5l.TYPE_HARD:
                yield {"name": path, "kind": "link"}
                continue
            if link.u in seen:
                yield {"name": path, "kind": "again"}
                continue
            seen.add(link.u)
            node = here[child]
            if isinstance(node, h5py.Group):
                todo.append((path, node))
            elif isinstance(node, h5py.Dataset):
                yield {"name": path, "kind": "dataset", "address": link.u, **_dataset(node, f"{shown}::{path}", known)}
            else:
                yield {"name": path, "kind": "type"}


def _attributes(node: Any) -> dict[str, Any]:
    kept, problems, notes = read_attributes(node, exact_text=True)
    return {
        "attributes": {name: pack(value) for name, value in kept.items()},
        "problems": problems,
        "notes": notes,
    }


def _dataset(dataset: Any, where: str, known: KnownMembers) -> dict[str, Any]:
    """A dataset: its facts, or why they cannot be read; and its scales by address, or that they are lost."""
    found: dict[str, Any] = {"facts": None, "table": None, "why": "", "shape": dataset.shape, "chunks": dataset.chunks}
    found["lost"] = False
    try:
        load_plugins(dataset, where)
        found["table"] = table_facts(dataset)
        found["facts"] = facts_of(dataset, where, known) if found["table"] is None else None
    except ReblockError as error:
        found["why"] = error.message.removeprefix(f"{where}: ").removeprefix(f"{where} ")
    found["unlimited"] = [limit is None for limit in dataset.maxshape or ()]
    try:
        found["scales"] = _scales(dataset)
    except FAILURES:
        found["scales"] = None
        found["lost"] = True
    return {**found, **_attributes(dataset)}


def _scales(dataset: Any) -> list[int | None] | None:
    """Addresses of the first scale of each axis; None if the dataset has no scales."""
    h5py = library()
    if _LIST not in dataset.attrs:
        return None
    if dataset.attrs.get_id(_LIST).shape != (len(dataset.shape),):
        raise ValueError("not one entry for each axis")
    return [
        h5py.h5o.get_info(h5py.h5r.dereference(axis[0], dataset.file.id)).addr if len(axis) else None
        for axis in dataset.attrs[_LIST]
    ]


def _members(group: Any) -> list[str]:
    """Names in a group, in the order of their creation if it is tracked, else sorted."""
    h5py = library()
    names: list[bytes] = []

    def add(name: bytes) -> bool:
        names.append(name)
        return len(names) > MANY_NODES

    tracked = group.id.get_create_plist().get_link_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
    order = h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME
    group.id.links.iterate(add, idx_type=order)
    return [name.decode("utf-8", "surrogateescape") for name in names]
