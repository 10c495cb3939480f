"""Split and merge: repartition into a folder of block files, and from one."""

from __future__ import annotations

import os
from typing import Any

from reblock.api.array import ArraySource
from reblock.api.running import repartition_array
from reblock.engine import Report
from reblock.errors import FormatError, UsageError, option
from reblock.geometry.notation import Chunks
from reblock.storage import registry
from reblock.storage.location import Location, Where
from reblock.storage.media.files import disk_errors
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import is_file, is_folder

#: Block formats that have a format of their own, without a pattern.
_OWN = {"npy": "blocks", "raw": "rawblocks", "bin": "rawblocks"}
#: The manifest of block folders.
_MANIFEST = "reblock.json"


def split(
    source: ArraySource,
    folder: Where,
    *,
    chunks: Chunks,
    block_format: str = "npy",
    pattern: str | None = None,
    **options: Any,
) -> Report:
    """Cut an array into a folder of block files; takes the other arguments of `repartition`.

    `block_format` is npy, raw, hdf5, or the name or ending of another format whose files hold one uncompressed array.
    `pattern` names the files: `{0}` is the block's number along axis 0, `{0:03}` the same with three digits.

    Examples
    --------
    >>> import numpy, reblock, tempfile, os
    >>> folder = tempfile.mkdtemp()
    >>> numpy.save(os.path.join(folder, "x.npy"), numpy.arange(6))
    >>> made = reblock.split(os.path.join(folder, "x.npy"), os.path.join(folder, "b"), chunks=4, pattern="part{0}.npy")
    >>> sorted(os.listdir(os.path.join(folder, "b")))
    ['part0.npy', 'part1.npy', 'reblock.json']
    """
    return repartition_array(source, folder, chunks=chunks, to_format=split_format(block_format, pattern), **options)


def merge(
    folder: Where,
    target: Where,
    *,
    block_format: str | None = None,
    pattern: str | None = None,
    **options: Any,
) -> Report:
    """Join a folder of block files into one array; takes the other arguments of `repartition`.

    A folder that `split` made needs nothing else. In a folder made by others, names or headers must tell where blocks
    belong: `pattern` names the numbers, as in `split`, which count blocks or are positions of their first elements.
    Without it, the last numbers in the names are taken, or the attribute `origin` of each file.

    Examples
    --------
    >>> import numpy, reblock, tempfile, os
    >>> folder = tempfile.mkdtemp()
    >>> os.mkdir(os.path.join(folder, "b"))
    >>> for number in range(3):
    ...     numpy.save(os.path.join(folder, "b", f"part{number}.npy"), numpy.full(2, number))
    >>> made = reblock.merge(os.path.join(folder, "b"), os.path.join(folder, "x.npy"))
    >>> numpy.load(os.path.join(folder, "x.npy")).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    return repartition_array(folder, target, from_format=merge_format(folder, block_format, pattern), **options)


def split_format(block_format: str, pattern: str | None = None) -> str:
    """Name of the format for a folder of such blocks."""
    if pattern is None and block_format in _OWN:
        return _OWN[block_format]
    name = f"fileblocks:{block_format}" + ("" if pattern is None else f":{pattern}")
    registry.get(name)
    return name


def merge_format(folder: Where, block_format: str | None = None, pattern: str | None = None) -> str | None:
    """Name of the format by which a folder of blocks is opened; None if its manifest tells it."""
    where = Location.parse(folder)
    medium = medium_of(where.path)
    if not is_folder(medium, where.path):
        raise UsageError(f"{where.path} is not a folder: blocks are files in a folder")
    if where.inner:
        raise UsageError(f"{where.path}: a block folder holds one array; leave out ::{where.inner}")
    if is_file(medium, os.path.join(where.path, _MANIFEST)):
        if block_format is not None or pattern is not None:
            raise UsageError(
                f"{where.path} has a manifest, {_MANIFEST}, which tells format and names of its blocks: leave out "
                f"{option('block_format')} and {option('pattern')}"
            )
        return None
    if block_format is None:
        block_format = _find_format(where.path) if pattern is None else pattern.rpartition(".")[2]
    return split_format(block_format, pattern) if pattern is not None else f"fileblocks:{block_format}"


def _find_format(folder: str) -> str:
    """The one ending of the files of a folder that is that of a format."""
    with disk_errors("list", folder):
        names = [name for name, _ in medium_of(folder).entries(folder) if not name.startswith(".")]
    endings = {name.rpartition(".")[2].lower() for name in names if "." in name}
    known = sorted(ending for ending in endings if registry.named(ending) is not None)
    if len(known) != 1:
        found = f"files of several formats ({', '.join(known)})" if known else "no files of a known format"
        raise FormatError(f"{folder} has no {_MANIFEST} and {found}: name the format with {option('block_format')}")
    return known[0]
