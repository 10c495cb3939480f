"""Directories of a new file: the tags of each page, written one page at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.model.schema import Schema
from reblock.storage.tiff.adapt import COMPRESSORS
from reblock.storage.tiff.geometry import TiffPages
from reblock.storage.tiff.handle import Kind
from reblock.storage.tiff.tags import ASCII, CODES, DESCRIPTION, LONG, LONG8, RATIONAL, SHORT, Tag

#: Sample formats by kind of type.
_FORMATS = {"u": 1, "i": 2, "f": 3, "c": 6}
#: What a page takes at most, beside its places and the description.
_PAGE_BYTES = 1024


def kind_of(schema: Schema, data_bytes: int) -> Kind:
    """BigTIFF for files that may be longer than 4 GiB."""
    pages = TiffPages(schema)
    total = data_bytes + pages.count * _PAGE_BYTES + pages.grid.count * 16 + (64 << 20)
    return Kind(">" if schema.dtype.str[0] == ">" else "<", big=total >= 1 << 32)


def header(kind: Kind, first: int = 0) -> bytes:
    """The first bytes of a file; `first` is the offset of the first directory."""
    mark = b"II" if kind.order == "<" else b"MM"
    if kind.big:
        return mark + struct.pack(f"{kind.order}HHHQ", 43, 8, 0, first)
    return mark + struct.pack(f"{kind.order}HI", 42, first)


def directories(
    schema: Schema,
    kind: Kind,
    start: int,
    offsets: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    first_tags: list[Tag],
) -> Iterator[bytes]:
    """The bytes of all directories, page by page, if the first begins at a byte."""
    pages = TiffPages(schema)
    fixed = _tags_of_page(schema, pages)
    place, count, per_page = start, pages.count, pages.per_page
    for number in range(count):
        here = slice(number * per_page, (number + 1) * per_page)
        tags = [*fixed, *_tags_of_places(pages, kind, offsets[here], counts[here]), *(first_tags if not number else ())]
        made = _directory(sorted(tags), kind, place, last=number == count - 1)
        place += len(made)
        yield made


def _tags_of_page(schema: Schema, pages: TiffPages) -> list[Tag]:
    """Tags that all pages share."""
    dtype, samples = schema.dtype, pages.samples
    (height, width), (rows, columns) = pages.size, pages.segment
    colours = samples in (3, 4) and dtype.kind == "u" and dtype.itemsize <= 2
    extra = samples - (3 if colours else 1)
    compressor = schema.codec.names[-1] if schema.codec else ""
    tags = [
        Tag(254, LONG, (2 if pages.count > 1 else 0,)),
        Tag(256, LONG, (width,)),
        Tag(257, LONG, (height,)),
        Tag(258, SHORT, (dtype.itemsize * 8,) * samples),
        Tag(259, SHORT, (COMPRESSORS[compressor] if compressor else 1,)),
        Tag(262, SHORT, (2 if colours else 1,)),
        Tag(277, SHORT, (samples,)),
        Tag(284, SHORT, (1,)),
        Tag(339, SHORT, (_FORMATS[dtype.kind],) * samples),
    ]
    if extra:
        tags.append(Tag(338, SHORT, (0,) * extra))
    if schema.codec.names[:1] == ("predictor",):
        stage = schema.codec.stages[0]
        floating = stage.get("kind", "floating" if dtype.kind == "f" else "") == "floating"
        tags.append(Tag(317, SHORT, (3 if floating else 2,)))
    if pages.tiled:
        return [*tags, Tag(322, LONG, (columns,)), Tag(323, LONG, (rows,))]
    return [*tags, Tag(278, LONG, (rows,))]


def _tags_of_places(pages: TiffPages, kind: Kind, offsets: Any, counts: Any) -> list[Tag]:
    """Tags with the places of segments."""
    where, size = (324, 325) if pages.tiled else (273, 279)
    wide = LONG8 if kind.big else LONG
    return [Tag(where, wide, tuple(offsets.tolist())), Tag(size, wide, tuple(counts.tolist()))]


def description_tag(text: bytes) -> Tag:
    """The tag of a description."""
    return Tag(DESCRIPTION, ASCII, text + b"\0")


def _directory(tags: list[Tag], kind: Kind, place: int, *, last: bool) -> bytes:
    """One directory with the values that do not fit into it; the next one follows."""
    room = 8 if kind.big else 4
    long = place + struct.calcsize(kind.count) + len(tags) * kind.tag_bytes + room
    entries, values = [struct.pack(kind.count, len(tags))], bytearray()
    for tag in tags:
        data, count = _packed(tag, kind)
        if len(data) > room:
            values += bytes(-len(values) % 8)
            where = long + len(values)
            values += data
            data = struct.pack(kind.offset, where)
        entries.append(struct.pack(f"{kind.order}HH{'Q' if kind.big else 'I'}", tag.number, tag.kind, count))
        entries.append(data.ljust(room, b"\0"))
    values += bytes(-(long + len(values)) % 16)
    entries.append(struct.pack(kind.offset, 0 if last else long + len(values)))
    return b"".join(entries) + bytes(values)


def _packed(tag: Tag, kind: Kind) -> tuple[bytes, int]:
    if isinstance(tag.values, bytes):
        return tag.values, len(tag.values)
    code = "I" if tag.kind == RATIONAL else CODES[tag.kind]
    made = struct.pack(f"{kind.order}{len(tag.values)}{code}", *tag.values)
    return made, len(tag.values) // (2 if tag.kind == RATIONAL else 1)
