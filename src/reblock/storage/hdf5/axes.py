"""Names of a dataset's axes: its labels, or the names of its dimension scales.

A dataset refers to a scale by an address in the file. HDF5 would search the whole file for the path of an address.
NetCDF keeps scales in the dataset's group or in a group above it, so only those are searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reblock.storage.hdf5.file import FAILURES, library

#: The most members of a group that are searched for a scale.
_MANY_MEMBERS = 10_000
#: Prefix of the NetCDF library for a variable that has the name of a dimension but is not its scale.
_NOT_A_SCALE = "_nc4_non_coord_"
_LIST = "DIMENSION_LIST"


#: Names of the objects in groups by their addresses, for those who describe many datasets of one file.
KnownMembers = dict[str, dict[int, str]]


def axis_names(dataset: Any, labels: Any, *, is_scale: bool, known: KnownMembers | None = None) -> tuple[str, ...]:
    """One name per axis; () if any is missing. `labels` is the value of the attribute DIMENSION_LABELS."""
    ndim = len(dataset.shape)
    found = list(map(str, labels)) if isinstance(labels, list) and len(labels) == ndim else [""] * ndim
    if not all(found):
        try:
            scales = _scale_names(dataset, is_scale, {} if known is None else known)
        except FAILURES:
            scales = [""] * ndim
        found = [label or scale for label, scale in zip(found, scales, strict=True)]
    return tuple(found) if all(found) else ()


def _scale_names(dataset: Any, is_scale: bool, known: KnownMembers) -> Sequence[str]:  # noqa: FBT001 - not public
    """The name of the first scale of each axis, or ""; a scale without scales names its own axis."""
    ndim = len(dataset.shape)
    if _LIST not in dataset.attrs:
        own = dataset.name.rpartition("/")[2] if is_scale and ndim == 1 else ""
        return [own.removeprefix(_NOT_A_SCALE)] * ndim
    if dataset.attrs.get_id(_LIST).shape != (ndim,):
        return [""] * ndim
    h5py = library()
    references = dataset.attrs[_LIST]
    addresses = [
        h5py.h5o.get_info(h5py.h5r.dereference(axis[0], dataset.file.id)).addr if len(axis) else None
        for axis in references
    ]
    names: dict[int, str] = {}
    for group in _groups(dataset):
        if group.name not in known:
            known[group.name] = {address: name for name, address in reversed(list(_members(group)))}
        for address in addresses:
            if address in known[group.name]:
                names.setdefault(address, known[group.name][address])
        if all(address in names for address in addresses if address is not None):
            break
    return ["" if address is None else names.get(address, "") for address in addresses]


def _groups(dataset: Any) -> Iterator[Any]:
    """The dataset's group, and the groups above it."""
    path = dataset.name
    while path.strip("/"):
        path = path.rpartition("/")[0]
        yield dataset.file[path or "/"]


def _members(group: Any) -> Iterator[tuple[str, int]]:
    """Names and addresses of the objects to which a group has hard links."""
    h5py = library()
    names: list[bytes] = []

    def add(name: bytes) -> bool:
        names.append(name)
        return len(names) >= _MANY_MEMBERS

    group.id.links.iterate(add)
    for name in names:
        link = group.id.links.get_info(name)
        if link.type == h5py.h5l.TYPE_HARD:
            yield name.decode("utf-8", "surrogateescape"), link.u
