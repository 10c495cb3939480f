"""Hostile TIFF files."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from corpus.cases import SAMPLE, case

BODY = SAMPLE.tobytes()
SHORT, LONG, LONG8, ASCII = 3, 4, 16, 2


def tiff(
    *,
    tags: dict[int, tuple[int, Any]] | None = None,
    without: tuple[int, ...] = (),
    pages: int = 1,
    next_page: int | None = None,
    body: bytes = BODY,
    big: bool = False,
) -> bytes:
    """A file of 8 × 8 integers in one strip, with changed tags; all pages have the same strip."""
    count, entry, offset = ("<Q", "<HHQ", "<Q") if big else ("<H", "<HHI", "<I")
    room = 8 if big else 4
    found: dict[int, tuple[int, Any]] = {
        256: (LONG, 8),
        257: (LONG, 8),
        258: (SHORT, 32),
        259: (SHORT, 1),
        262: (SHORT, 1),
        273: (LONG, 16),
        277: (SHORT, 1),
        278: (LONG, 8),
        279: (LONG, len(body)),
        339: (SHORT, 2),
    }
    found |= tags or {}
    found = {number: found[number] for number in sorted(found) if number not in without}
    first = 16 + len(body) + len(body) % 2
    out = bytearray(body.ljust(first - 16, b"\0"))
    for page in range(pages):
        here = 16 + len(out)
        after = here + struct.calcsize(count) + len(found) * (20 if big else 12) + room
        entries, values = bytearray(struct.pack(count, len(found))), bytearray()
        for number, (kind, value) in found.items():
            data, length = _packed(kind, value)
            if len(data) > room:
                where = after + len(values)
                values += data + bytes(len(data) % 2)
                data = struct.pack(offset, where)
            entries += struct.pack(entry, number, kind, length) + data.ljust(room, b"\0")
        following = after + len(values) if page < pages - 1 else (next_page or 0)
        out += entries + struct.pack(offset, following) + values
    head = struct.pack("<2sHHHQ", b"II", 43, 8, 0, first) if big else struct.pack("<2sHI8x", b"II", 42, first)
    return head + bytes(out)


def _packed(kind: int, value: Any) -> tuple[bytes, int]:
    """The bytes of a value, and its number of values; a pair of bytes and a number lies about that."""
    if isinstance(value, tuple) and isinstance(value[0], bytes):
        return value
    if isinstance(value, bytes):
        return value, len(value)
    values = value if isinstance(value, tuple) else (value,)
    return struct.pack(f"<{len(values)}{ {SHORT: 'H', LONG: 'I', LONG8: 'Q'}[kind] }", *values), len(values)


def add(
    name: str, data: bytes, error: str = "FormatError", run: str | None = None, says: str = "", **more: bool
) -> None:
    """A case that is one file."""

    @case(f"tiff/{name}", error, run, says=says, **more)
    def _(folder: Path) -> str:
        (folder / "x.tif").write_bytes(data)
        return "x.tif"


def ome(sizes: str, more: str = "") -> bytes:
    return (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0">'
        f'<Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="int32" {sizes}><TiffData/></Pixels></Image>{more}</OME>\0'
    ).encode()


SIZES = 'SizeX="8" SizeY="8" SizeZ="1" SizeC="1" SizeT="1"'
FIRST = 16 + len(BODY)
EITHER = "FormatError|CorruptError"
add("whole", tiff(), "")
add("whole-big", tiff(big=True), "")
add("loop", tiff(next_page=FIRST), says="loop", quick=True)
add("loop-of-three", tiff(pages=3, next_page=FIRST), says="loop")
add("next-beyond", tiff(next_page=1 << 30), says="cut off")
add("no-page", struct.pack("<2sHI8x", b"II", 42, 0), says="without any page")
add("header-only", b"II*\0")
add("big-offsets-of-4", struct.pack("<2sHHHQ", b"II", 43, 4, 0, 16))
add("directory-cut", tiff()[:-20], says="cut off")
add("many-tags", tiff()[:FIRST] + b"\xff\xff" + bytes(100), says="tags")
add("strip-beyond", tiff(tags={273: (LONG, 1 << 30)}), "CorruptError", says="cut off", quick=True)
add("strip-longer", tiff(tags={279: (LONG, 1 << 31)}), "CorruptError")
add("strip-shorter", tiff(tags={279: (LONG, 255)}), "CorruptError", says="its elements take 256")
add("huge", tiff(tags={256: (LONG, 1 << 31), 257: (LONG, 1 << 31), 278: (LONG, 1 << 31)}), EITHER, quick=True)
add(
    "huge-compressed",
    tiff(tags={256: (LONG, 1 << 31), 257: (LONG, 1 << 31), 278: (LONG, 1 << 31), 259: (SHORT, 8)}),
    EITHER,
)
add("huge-rows-of-strips", tiff(tags={257: (LONG, (1 << 32) - 1), 278: (LONG, 1)}), EITHER, quick=True)
add("tiles-of-nothing", tiff(tags={322: (LONG, 0), 323: (LONG, 0)}, without=(278,)), EITHER)
add("tiles-huge", tiff(tags={322: (LONG, 1 << 31), 323: (LONG, 1 << 31), 324: (LONG, 16), 325: (LONG, 256)}), EITHER)
add("no-strips", tiff(without=(273, 279)), EITHER)
add("no-width", tiff(without=(256,)), EITHER)
add("width-0", tiff(tags={256: (LONG, 0)}), EITHER)
add("bits-0", tiff(tags={258: (SHORT, 0)}), EITHER)
add("bits-4000", tiff(tags={258: (SHORT, 4000)}), EITHER)
add("samples-60000", tiff(tags={277: (SHORT, 60000)}), EITHER)
add("compression-unknown", tiff(tags={259: (SHORT, 4711)}), EITHER)
add("predictor-unknown", tiff(tags={259: (SHORT, 8), 317: (SHORT, 99)}), EITHER)
add("count-of-4-giga", tiff(tags={273: (LONG, (struct.pack("<I", 16), (1 << 32) - 1))}), EITHER, quick=True)
add("count-of-2-to-60", tiff(big=True, tags={273: (LONG8, (struct.pack("<Q", 16), 1 << 60))}), EITHER, quick=True)
add("deflate-garbage", tiff(tags={259: (SHORT, 8)}), "", "CorruptError")
add("deflate-short", tiff(tags={259: (SHORT, 8)}, body=zlib.compress(BODY[:-4])), "", "CorruptError", says="x.tif")
add("deflate-bomb", tiff(tags={259: (SHORT, 8)}, body=zlib.compress(bytes(1 << 24))), "", "CorruptError")
add("lzw-garbage", tiff(tags={259: (SHORT, 5)}, body=b"\xff" * 100), "", "CorruptError")
add(
    "jpeg-garbage",
    tiff(tags={259: (SHORT, 7), 258: (SHORT, 8), 339: (SHORT, 1)}, body=b"\xff\xd8" * 40),
    "",
    "CorruptError",
)
add(
    "jpeg-huge",
    tiff(
        tags={259: (SHORT, 7), 258: (SHORT, 8), 339: (SHORT, 1)},
        body=b"\xff\xd8\xff\xc0\x00\x0b\x08\xff\xff\xff\xff\x01\x01\x11\x00" + bytes(50),
    ),
    "",
    "CorruptError",
    says="JPEG",
    quick=True,
)
add("description-shape", tiff(tags={270: (ASCII, b'{"shape": [4294967296, 4294967296]}\0')}), "|" + EITHER)
add("description-ours", tiff(tags={270: (ASCII, b'{"shape": [8, 8], "reblock": {"shape": [8, -8], "axes": 3}}\0')}), "")
add(
    "imagej-images",
    tiff(tags={270: (ASCII, b"ImageJ=1.53\nimages=1000000000\nslices=1000000000\n\0")}),
    "|" + EITHER,
    quick=True,
)
add("ome", tiff(tags={270: (ASCII, ome(SIZES))}), "")
add("ome-broken", tiff(tags={270: (ASCII, ome(SIZES)[:-20] + b"\0")}), says="OME-XML is broken", quick=True)
add("ome-unclosed", tiff(tags={270: (ASCII, ome(SIZES, "<Image>"))}), says="OME-XML is broken")
add(
    "ome-sizes",
    tiff(tags={270: (ASCII, ome(SIZES.replace('SizeZ="1"', 'SizeZ="1000000000"')))}),
    says="promises",
    quick=True,
)
add(
    "ome-channels",
    tiff(tags={270: (ASCII, ome(SIZES.replace('SizeC="1"', 'SizeC="1000000000"')))}),
    "|" + EITHER,
    quick=True,
)
add("ome-size-text", tiff(tags={270: (ASCII, ome(SIZES.replace('SizeZ="1"', 'SizeZ="many"')))}), says="SizeZ")
add("ome-negative", tiff(tags={270: (ASCII, ome(SIZES.replace('SizeT="1"', 'SizeT="-1"')))}), says="SizeT")
_LAUGHS = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><OME>&b;</OME>\0'
add("ome-entities", tiff(tags={270: (ASCII, _LAUGHS)}), says="entities", quick=True)
