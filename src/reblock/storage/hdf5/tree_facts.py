"""All objects of an HDF5 file as facts: groups, datasets, shared axes, and what is neither.

This runs in the process that reads other people's files. Each object is visited once, by its address, so that loops of
hard links end; soft links and links to other files are named and not followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from reblock.errors import FormatError
from reblock.storage.hdf5.axes import KnownMembers
from reblock.storage.hdf5.file import FAILURES, library, parts_of, resolve
from reblock.storage.hdf5.metadata import facts_of, is_netcdf, read_attributes, read_record
from reblock.storage.hdf5.plugins import load_plugins
from reblock.storage.hdf5.sandbox.wire import pack
from reblock.storage.hdf5.table_facts import table_facts
from reblock.storage.trees import MAX_NODES, check_nodes, join

#: How the NetCDF library names a scale that stands for an axis without coordinates.
NOT_A_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
#: What a scale is to HDF5.
SCALE = b"DIMENSION_SCALE"


def tree_facts(file: Any, path: str, inner: str) -> Iterator[dict[str, Any]]:
    """Facts of each object below a group, the groups level by level."""
    h5py = library()
    top = resolve(file, path, parts_of(inner))
    where = f"{path}::{inner}" if inner else path
    if not isinstance(top, h5py.Group):
        raise FormatError(f"{where} is an array, not a group")
    if file.userblock_size and not inner:
        yield {"other": f"a user block of {file.userblock_size:,} bytes"}
    seen = {h5py.h5o.get_info(top.id).addr: "the top"}
    known: KnownMembers = {}
    waiting = deque([""])
    while waiting:
        prefix = waiting.popleft()
        here = top[prefix] if prefix else top
        yield {"group": prefix, **_group_facts(here)}
        for name in member_names(here):
            full = join(prefix, name)
            link = here.id.links.get_info(name.encode("utf-8", "surrogateescape"))
            if link.type != h5py.h5l.TYPE_HARD:
                yield {"other": _link_text(here, name, full)}
                continue
            if link.u in seen:
                yield {"other": f"{full} is another name of {seen[link.u]}, which is kept once"}
                continue
            seen[link.u] = full
            check_nodes(len(seen), full.count("/") + 1, where)
            child = here[name]
            if isinstance(child, h5py.Group):
                waiting.append(full)
            elif isinstance(child, h5py.Dataset):
                yield _dataset_facts(child, f"{path}::{join(inner, full)}", full, known)
            else:
                yield {"other": f"{full} is a named type, which is not kept"}


def member_names(group: Any) -> list[str]:
    """Names in a group, in the order in which they were made if the file tells it."""
    h5py = library()
    names: list[bytes] = []

    def add(name: bytes) -> bool:
        names.append(name)
        return len(names) > MAX_NODES

    tracked = False
    if group.name != "/" or not group.file.id.get_create_plist().get_link_creation_order():
        tracked = bool(group.id.get_create_plist().get_link_creation_order() & h5py.h5p.CRT_ORDER_TRACKED)
    else:
        tracked = True
    try:
        group.id.links.iterate(add, idx_type=h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME)
    except FAILURES:
        names.clear()
        group.id.links.iterate(add)
    return [name.decode("utf-8", "surrogateescape") for name in names]


def _group_facts(group: Any) -> dict[str, Any]:
    kept, problems, notes = read_attributes(group)
    notes += [f"attribute {name!r} is not kept: {problem}" for name, problem in problems.items()]
    return {
        "attributes": {name: pack(value) for name, value in kept.items()},
        "netcdf": "_NCProperties" in group.file.attrs,
        "record": read_record(group),
        "notes": notes,
    }


def _dataset_facts(dataset: Any, where: str, full: str, known: KnownMembers) -> dict[str, Any]:
    """An axis, an array, or what else can be said about a dataset."""
    try:
        scale = dataset.attrs.get("CLASS") == SCALE and dataset.shape is not None and len(dataset.shape) == 1
        unlimited = scale and dataset.maxshape[0] is None
        if scale and bytes(dataset.attrs.get("NAME", b"")).startswith(NOT_A_VARIABLE):
            return {"dimension": full, "length": dataset.shape[0], "unlimited": unlimited}
    except FAILURES:
        scale = unlimited = False
    try:
        load_plugins(dataset, where)
        if (facts := table_facts(dataset)) is None:
            facts = facts_of(dataset, where, known)
    except FormatError as error:
        return {"table": full, "why": error.message, **_shape_facts(dataset)}
    except FAILURES as error:
        return {"table": full, "why": f"{where}: {' '.join(str(error).split())}", **_shape_facts(dataset)}
    if "kind" in facts:
        return {"table": full, "why": "", "scale": unlimited, **_shape_facts(dataset), **facts}
    if facts["axes"] is None and "DIMENSION_LIST" in dataset.attrs:
        facts["notes"].append("its dimension scales are not kept: not every axis has one")
    return {"array": full, "scale": unlimited, **facts}


def _shape_facts(dataset: Any) -> dict[str, Any]:
    try:
        return {"shape": dataset.shape, "chunks": dataset.chunks, "netcdf": is_netcdf(dataset)}
    except FAILURES:
        return {"shape": None, "chunks": None, "netcdf": False}


def _link_text(group: Any, name: str, full: str) -> str:
    h5py = library()
    try:
        link = group.get(name, getlink=True)
    except FAILURES:
        link = None
    if isinstance(link, h5py.SoftLink):
        return f"{full} is a soft link to {link.path}, which is not kept"
    if isinstance(link, h5py.ExternalLink):
        return f"{full} is a link to {link.path} in another file, {link.filename}, which is not followed"
    return f"{full} is a link of an unknown kind, which is not followed"
