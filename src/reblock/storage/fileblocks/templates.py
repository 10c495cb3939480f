"""Templates of block files: what a format writes before and after the elements of an array of one shape.

::

    format.create(a temporary file, schema of a block) → commit → open → where the elements are
    ├─ head ─┼─ elements ─┼─ tail ─┤

A format can be used for blocks if its file is one run of elements with other bytes before and after them, so that the
engine writes blocks and reads any part of them without the format's library.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from reblock.errors import CorruptError, UsageError
from reblock.model.medium import Medium
from reblock.model.schema import Schema
from reblock.model.store import Bytes, Extent, Foreseeable, Format, Store, TransferMode
from reblock.storage import registry
from reblock.storage.media.local import LOCAL
from reblock.storage.media.memory import MEMORY
from reblock.storage.media.small import read_head, read_tail

#: The most bytes before or after the elements of a block.
MAX_AROUND_BYTES = 1 << 20
#: Templates of blocks with more bytes are made as files, whose elements are holes.
_MEMORY_BYTES = 4 << 20
#: Names of templates in memory.
_NUMBERS = itertools.count()


class Template(NamedTuple):
    """The bytes around the elements of a block."""

    head: bytes
    """Bytes before the elements."""
    tail: bytes
    """Bytes after them."""


def block_schema(shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...]) -> Schema:
    """What a block is, as an array of its own; the manifest keeps fill value, axis names and attributes."""
    return Schema(shape, dtype, tuple(max(length, 1) for length in shape), order=order)


@lru_cache(maxsize=1 << 12)
def make_template(
    kind: str, shape: tuple[int, ...], dtype: str, order: tuple[int, ...], attributes: str = "{}"
) -> Template:
    """The template of a block in a format, made once for each shape; attributes are JSON."""
    files = registry.get(kind)
    plain = replace(block_schema(shape, np.dtype(dtype), order), attributes=json.loads(attributes))
    return template_of(files, files.adapt(plain, ()))


def template_of(format: Format, schema: Schema) -> Template:
    """The template of an array with an adapted schema."""
    with _made(format, schema) as (store, path, medium):
        found = elements_run(store)
        if found is None or store.layout.order != schema.order or store.layout.dtype != schema.dtype:
            raise no_block_format(format.name)
        offset, length = found
        head, size = read_head(medium, path, offset)
        after = size - offset - length
        if after < 0 or max(offset, after) > MAX_AROUND_BYTES:
            raise no_block_format(format.name)
        return Template(head, read_tail(medium, path, after))


def elements_run(store: Store) -> tuple[int, int] | None:
    """Offset and length of an array's elements in its one file; None if they are not one run in disk order."""
    layout = store.layout
    if layout.encoded or layout.indexed or store.reads is not TransferMode.EXTENT or layout.objects.overhangs:
        return None
    offset, end = 0, -1
    for index in layout.objects.indices(layout.order):
        extent = store.extents(index, [index], _nothing)[0]
        size = prod(layout.objects.box(index).shape) * layout.itemsize
        if extent is None or (extent.length not in (None, size)):
            return None
        if end < 0:
            offset = end = extent.offset
        if extent.offset != end:
            return None
        end += size
    if layout.objects.count > 1 and not _in_order(store):
        return None
    return offset, layout.nbytes


def check_single_file(files: Format, schema: Schema) -> None:
    """Raise UsageError if an array of a format is a folder rather than a file."""
    suffix = files.suffixes[0] if files.suffixes else ""
    if isinstance(files, Foreseeable) and files.foresee(f"block{suffix}", "", schema) is not None:
        raise no_block_format(files.name)


def no_block_format(name: str) -> UsageError:
    """An error for a format whose files are not one run of elements."""
    return UsageError(f"{name} cannot hold blocks: its files are not one run of elements; npy, raw or hdf5 can")


def _in_order(store: Store) -> bool:
    """Whether objects cut the array only where the elements stay in disk order, like the pages of a stack."""
    layout = store.layout
    cut = [layout.objects.counts[axis] > 1 for axis in layout.order]
    # Axes outside the innermost cut one are cut into single elements.
    last = max(place for place, is_cut in enumerate(cut) if is_cut)
    return all(layout.objects.largest[axis] == 1 for axis in layout.order[:last])


@contextmanager
def _made(format: Format, schema: Schema) -> Iterator[tuple[Store, str, Medium]]:
    """A new array whose elements were never written."""
    suffix = format.suffixes[0] if format.suffixes else ""
    if prod(schema.shape) * schema.dtype.itemsize <= _MEMORY_BYTES:
        path = f"memory://block-templates/{next(_NUMBERS)}{suffix}"
        try:
            try:
                store = format.create(path, "", schema, medium=MEMORY)
            except UsageError:
                store = None
            if store is not None:
                store.commit()
                yield format.open(path, "", medium=MEMORY), path, MEMORY
                return
        finally:
            MEMORY.remove(path)
    with tempfile.TemporaryDirectory(prefix="reblock-") as folder:
        path = os.path.join(folder, f"block{suffix}")
        format.create(path, "", schema).commit()
        yield format.open(path, ""), path, LOCAL


def _nothing(extent: Extent) -> Bytes:
    raise CorruptError(f"{extent.path}: a block has no index")
