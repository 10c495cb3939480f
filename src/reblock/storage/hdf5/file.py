"""Open HDF5 files with h5py: without plugins, without loops in groups, every failure as one typed error."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reblock.errors import DiskError, FormatError, ReblockError, StorageError
from reblock.model.medium import Medium
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import is_file

SIGNATURE = b"\x89HDF\r\n\x1a\n"
#: The exceptions that h5py raises for failures of HDF5.
FAILURES = (OSError, RuntimeError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError)
#: The most names of datasets that a message lists.
_LISTED = 10
#: The most objects that a search for datasets visits.
_MANY_OBJECTS = 100_000
#: The most soft links that are followed to one dataset.
_MANY_LINKS = 40


class Elsewhere(Exception):  # noqa: N818 - a place, not an error
    """The path to a dataset leads into another file."""

    def __init__(self, file: str, path: str, at: str) -> None:
        """The other file as the link names it, the path inside it, and the path of the link."""
        super().__init__(f"{at} is a link to another file, {file}")
        self.file, self.path, self.at = file, path, at


def library() -> Any:
    """The module h5py, without folders from which HDF5 would load filter plugins."""
    import h5py

    # The paths come from HDF5_PLUGIN_PATH and belong to the process, so this affects all users of h5py in it.
    while h5py.h5pl.size():
        h5py.h5pl.remove(0)
    return h5py


@contextmanager
def failures(doing: str, path: str, kind: type[StorageError] = FormatError) -> Iterator[None]:
    """Turn exceptions of h5py into errors of one line: a DiskError if there is an errno, else `kind`."""
    try:
        yield
    except ReblockError:
        raise
    except FAILURES as error:
        text = " ".join(str(error.args[-1] if error.args else error).split())
        number = getattr(error, "errno", None) or _errno_inside(text)
        if number:
            raise DiskError.wrap(OSError(number, os.strerror(number)), doing=doing, path=path) from None
        raise kind(f"{doing} {path}: {text or type(error).__name__}") from None


def _errno_inside(text: str) -> int:
    """The errno of a failed read or write, which HDF5 only states in its message."""
    found = re.search(r"\berrno = (\d+)", text)
    return int(found[1]) if found else 0


def signature_offset(path: str, medium: Medium = LOCAL) -> int | None:
    """Offset of the HDF5 signature: 0, or 512, 1024, 2048, ... after a user block; None without a signature."""
    if not is_file(medium, path):
        return None
    with disk_errors("open", path), medium.reader(path) as handle:
        size, offset, found = handle.size(), 0, bytearray(len(SIGNATURE))
        while offset + len(SIGNATURE) <= size:
            handle.read(memoryview(found), offset)
            if found == SIGNATURE:
                return offset
            offset = max(2 * offset, 512)
    return None


def open_file(path: str, mode: str, *, ordered: bool = False) -> Any:
    """An `h5py.File`; `mode` is r, r+ or x (new, and readable by every HDF5 since 1.8).

    With `ordered`, a new file remembers the order of members and attributes of its top group.

    The driver is given because HDF5_DRIVER could name a plugin. A file is not refused if the file system cannot lock
    it.
    """
    h5py = library()
    if mode == "x":
        # 1.8 is the oldest version whose attributes may exceed 64 KiB; from 1.10 on, a file whose writer was
        # killed is marked as open and refused. One MiB of cache is enough, since the engine writes whole chunks.
        more = {"track_order": True} if ordered else {}
        return h5py.File(path, "x", driver="sec2", libver=("v108", "v110"), rdcc_nbytes=1 << 20, **more)
    # HDF5 reports a chunk in the cache as stored even if it is not.
    cache = 0 if mode == "r" else 1 << 20
    return h5py.File(path, mode, driver="sec2", locking="best-effort", rdcc_nbytes=cache)


def open_bytes(file: Any) -> Any:
    """An `h5py.File` of a Python file that is only read."""
    return library().File(file, "r", driver="fileobj", rdcc_nbytes=0)


# -------------------------------------------------------------------- finding a dataset
def parts_of(inner: str) -> list[str]:
    """Names along an inner path."""
    return [part for part in inner.split("/") if part not in ("", ".")]


def find_dataset(file: Any, path: str, inner: str) -> tuple[str, Any]:
    """A dataset by its inner path, or the file's only dataset; and the path at which it was found."""
    h5py = library()
    parts = parts_of(inner)
    found = resolve(file, path, parts)
    if isinstance(found, h5py.Dataset):
        return "/".join(parts), found
    names = list_datasets(found)
    if len(names) == 1 and not parts:
        name = names[0]
        return name, resolve(file, path, parts_of(name))
    where = f"{path}::{'/'.join(parts)}" if parts else path
    if not names:
        raise FormatError(f"{where} holds no dataset{_links_text(found)}")
    listed = ", ".join("/".join([*parts, name]) for name in names[:_LISTED])
    more = ", ..." if len(names) > _LISTED else ""
    what = "is a group" if parts else "holds more than one dataset"
    raise FormatError(f"{where} {what}: add ::NAME, one of {listed}{more}")


def resolve(file: Any, path: str, parts: list[str]) -> Any:
    """The object at a path; soft links are followed, and a link to another file raises Elsewhere."""
    h5py = library()
    here, todo, hops, done = file["/"], list(parts), 0, ""
    while todo:
        name = todo.pop(0)
        done = f"{done}/{name}"
        link = here.get(name, getlink=True) if isinstance(here, h5py.Group) else None
        if link is None:
            raise FormatError(f"{path} has no {done.lstrip('/')}{_near_text(here)}")
        if isinstance(link, h5py.ExternalLink):
            raise Elsewhere(link.filename, "/".join([link.path.strip("/"), *todo]), done.lstrip("/"))
        if isinstance(link, h5py.SoftLink):
            hops += 1
            if hops > _MANY_LINKS:
                raise FormatError(f"{path}::{'/'.join(parts)} leads through more than {_MANY_LINKS} soft links")
            todo = [*parts_of(link.path), *todo]
            here, done = (file["/"], "") if link.path.startswith("/") else (here, done.rpartition("/")[0])
            continue
        here = here[name]
    return here


def list_datasets(group: Any) -> list[str]:
    """Paths of the datasets below a group, each object once, at most a few more than a message lists."""
    h5py = library()
    names: list[str] = []
    seen: set[int] = set()
    todo = [("", group)]
    while todo and len(names) <= _LISTED and len(seen) <= _MANY_OBJECTS:
        prefix, here = todo.pop(0)
        for name in _members(here, _MANY_OBJECTS):
            link = here.id.links.get_info(name.encode("utf-8", "surrogateescape"))
            # Soft links only repeat what hard links reach; external links lead to other files. The address comes
            # from the link, because opening the object would read more of a hostile file.
            if link.type != h5py.h5l.TYPE_HARD or link.u in seen:
                continue
            seen.add(link.u)
            child = here[name]
            if isinstance(child, h5py.Dataset):
                names.append(prefix + name)
            elif isinstance(child, h5py.Group):
                todo.append((f"{prefix}{name}/", child))
            if len(names) > _LISTED or len(seen) > _MANY_OBJECTS:
                break
    return names


def list_strangers(file: Any, path: str) -> Iterator[str]:
    """The contents of a file beside its one dataset and the groups above it, in words."""
    inner, _ = find_dataset(file, path, "")
    if file.userblock_size:
        yield f"a user block of {file.userblock_size:,} bytes"
    here = file["/"]
    for part in parts_of(inner):
        if len(here.attrs):
            yield f"attributes of {here.name}"
        yield from (f"{here.name.rstrip('/')}/{name}" for name in _members(here, _MANY_OBJECTS) if name != part)
        here = here[part]


def _members(group: Any, limit: int) -> list[str]:
    """At most `most` names in a group, which may have millions."""
    names: list[bytes] = []

    def add(name: bytes) -> bool:
        names.append(name)
        return len(names) >= limit

    group.id.links.iterate(add)
    return [name.decode("utf-8", "surrogateescape") for name in names]


def _near_text(here: Any) -> str:
    names = list_datasets(here) if hasattr(here, "keys") else []
    if not names:
        return ""
    return f": {here.name} holds {', '.join(names[:_LISTED])}{', ...' if len(names) > _LISTED else ''}"


def _links_text(group: Any) -> str:
    h5py = library()
    for name in _members(group, _LISTED):
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            return f" of its own: {name} is a link to another file, {link.filename}"
    return ""
