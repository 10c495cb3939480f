"""Structure: what tifffile tells of one series of a file, checked, with the places of all segments as numbers.

A segment is a strip or a tile. Segments are numbered as the units of the array's grid are, page by page ::

    (leading axes…, [S], Y, X, [S])       pages are the leading axes; planes S before, samples S after Y and X
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, FormatError, ReblockError
from reblock.model.codec import Codec, Stage
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record
from reblock.storage.checks import check_chunks, check_dtype, check_shape, show
from reblock.storage.codecs.predictor import FLOATING, HORIZONTAL, usual_kind
from reblock.storage.tiff.description import Told, check_ome, is_xml, read_ours
from reblock.storage.tiff.handle import MediumFile, check_directories, opened, silence
from reblock.storage.tiff.tags import DESCRIPTION, MAX_TEXT, attributes_of

Integers = npt.NDArray[np.int64]
#: Compressions that are decoded here, by their number.
CODECS = {
    5: Stage.of("lzw"),
    8: Stage.of("zlib", level=6),
    32773: Stage.of("rle"),
    32946: Stage.of("zlib", level=6),
    34925: Stage.of("lzma"),
    34926: Stage.of("zstd"),
    50000: Stage.of("zstd"),
}
#: Compressions that tifffile decodes, by their number: segments of known size, whatever their bytes say.
_BY_TIFFFILE = {2: "ccitt", 3: "ccitt", 4: "ccitt", 7: "jpeg"}
_PREDICTORS = {2: HORIZONTAL, 3: FLOATING}
#: The most segments of an array.
_MAX_SEGMENTS = 1 << 28


class RunOfBytes(Enum):
    """Pieces of an array that are one run of bytes each."""

    SEGMENT = "segment"
    """Strips or tiles."""
    PAGE = "page"
    """Pages: their strips follow each other."""
    ARRAY = "array"
    """The array: its pages follow each other, too."""


@dataclass(frozen=True, eq=False)
class Structure:
    """One array of a file."""

    shape: tuple[int, ...]
    """Length of each axis."""
    dtype: np.dtype[Any]
    """Type of an element, in the byte order of decoded segments."""
    cuts: tuple[int, ...]
    """Length of a segment along each axis."""
    tiled: bool
    """Whether segments are tiles, which extend beyond the array."""
    offsets: Integers = field(repr=False)
    """The first byte of each run; 0 = not stored."""
    counts: Integers = field(repr=False)
    """Stored bytes of the first segment of each run."""
    codec: Codec
    """How a segment is encoded."""
    by_tifffile: bool
    """Whether tifffile decodes segments."""
    run: RunOfBytes
    """The largest pieces of the array that are one run of raw bytes each."""
    pages: int
    """Number of pages."""
    row: tuple[int, int]
    """Pixels in a row of a segment, and elements of a pixel."""
    axes: tuple[str, ...] | None
    """Names of the axes."""
    attributes: dict[str, Any]
    """Attributes, from tags and from our own document."""
    fill: Any
    """The value of segments that are not stored."""
    ome: bool
    """Whether the file is OME-TIFF."""
    record: Record
    """Record of the run that made it."""
    notes: tuple[str, ...]
    """What could not be kept."""


class _Parsed(NamedTuple):
    """A structure, and all bytes that it was read from."""

    kind: tuple[str, str, int]
    seen: Mapping[int, bytes]
    structure: Structure


#: The file that was read last. Those of a stack differ in their elements only.
_last: _Parsed | None = None


def read_structure(path: str, inner: str, medium: Medium, roots: Roots | None) -> Structure:
    """The array of a file; FormatError or CorruptError if the file contradicts itself.

    A file with the same size as the last one, and with the same bytes wherever tifffile looked, has the same structure:
    it is not parsed again, which takes tifffile a millisecond.
    """
    global _last  # noqa: PLW0603 - one assignment, and any value of it is right
    with opened(medium, path, roots) as file:
        # tifffile may judge by the ending of the name.
        kind = posixpath.splitext(path)[1], inner, file.size
        last = _last
        if last is not None and last.kind == kind and file.holds(last.seen):
            return last.structure
        found = _parse(file, path, inner)
        if file.seen is not None:
            _last = _Parsed(kind, file.seen, found)
        return found


def _parse(file: MediumFile, path: str, inner: str) -> Structure:
    with parsing(file, path) as (tif, pages):
        text = _description(tif.pages[0])
        ome = is_xml(text)
        document = check_ome(text, pages, max(int(tif.pages[0].samplesperpixel), 1), path) if ome else text
        series = choose_series(tif, inner, path)
        return _structure(path, tif, series, (pages, file.size), _told(series, document), ome=ome, text=text)


@contextmanager
def open_tifffile(path: str, medium: Medium, roots: Roots | None = None) -> Iterator[Any]:
    """A file of tifffile; whatever tifffile raises is a FormatError."""
    with opened(medium, path, roots) as file, parsing(file, path) as (tif, _):
        yield tif


@contextmanager
def parsing(file: MediumFile, path: str) -> Iterator[tuple[Any, int]]:
    """A file of tifffile and its number of pages; whatever tifffile raises is a FormatError."""
    import tifffile

    silence()
    pages = check_directories(file, path)
    file.seek(0)
    try:
        # OME-XML may name other files, which are not opened.
        with tifffile.TiffFile(cast("Any", file), name=path.rpartition("/")[2], _multifile=False) as tif:
            yield tif, pages
    except (ReblockError, OSError):
        raise
    except MemoryError:
        raise FormatError(f"{path}: its directories take more memory than there is") from None
    except Exception as error:  # tifffile raises anything for bytes that are not TIFF
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FormatError(f"{path}: tifffile cannot read its directories: {reason}") from error


def choose_series(tif: Any, inner: str, path: str) -> Any:
    """The series with a number, or its level of a pyramid, as `2` or `0/1`; the only one if none is named."""
    found = list(tif.series)
    parts = inner.split("/") if inner else []
    if not parts and len(found) != 1:
        there = ", ".join(f"::{n} {show(tuple(one.shape))} {one.dtype}" for n, one in enumerate(found[:20]))
        more = ", …" if len(found) > 20 else ""
        raise FormatError(f"{path}: {len(found)} arrays; name one of them after '::': {there}{more}")
    levels: Sequence[Any] = found
    chosen: Any = found[0] if not parts else None
    for what, part in zip(("array", "level"), parts, strict=False):
        number = int(part) if part.isascii() and part.isdecimal() and len(part) < 10 else len(levels)
        if number >= len(levels):
            raise FormatError(f"{path}: there is no {what} {show(part)}, there are 0 to {len(levels) - 1}")
        chosen = levels[number]
        levels = list(chosen.levels)
    if len(parts) > 2:
        raise FormatError(
            f"{path}: {show(inner)} is not an array, which is named as 0, or 0/1 for a level of a pyramid"
        )
    return chosen


def _description(page: Any) -> str:
    tag = page.tags.get(DESCRIPTION)
    return tag.value if tag is not None and isinstance(tag.value, str) else ""


def _told(series: Any, document: str) -> Told | None:
    """What our own document says, if it can be about this series."""
    if series.dtype is None:
        return None
    told = read_ours(document, series.dtype)
    return told if told is not None and prod(told.shape) == prod(series.shape) else None


def _structure(
    path: str, tif: Any, series: Any, extent: tuple[int, int], told: Told | None, *, ome: bool, text: str
) -> Structure:
    page, (pages, size) = series.keyframe, extent
    if series.dtype is None or page.dtype is None or page.imagedepth != 1:
        bits = f"{page.bitspersample} bits, sample format {page.sampleformat}, depth {page.imagedepth}"
        raise FormatError(f"{path}: elements of {bits} are not supported")
    codec, by_tifffile = _codec(page, path)
    native = np.dtype(page.dtype).newbyteorder("=")
    dtype = check_dtype(native if by_tifffile else native.newbyteorder(tif.byteorder), where=path)
    shape = check_shape(list(series.shape if told is None else told.shape), where=path, itemsize=dtype.itemsize)
    if 0 in shape:
        raise FormatError(f"{path}: an array of shape {list(shape)} without elements, which TIFF cannot hold")
    # All elements may follow one page, as ImageJ writes large stacks.
    follows = not codec and series.dataoffset is not None and len(series) > pages
    cuts = _cuts(shape, page, len(series), path, follows=follows)
    if cuts is None:
        raise FormatError(f"{path}: pages of {tuple(page.shape)} do not make up an array of {shape}")
    check_chunks(cuts, shape, dtype.itemsize, where=path, what="strips or tiles")
    if follows:
        run = RunOfBytes.ARRAY
        offsets, counts = np.array([[series.dataoffset]]), np.array([[prod(shape) * dtype.itemsize]])
    else:
        offsets, counts = _places(series, path)
        _check_places(offsets, counts, size, path)
        run = RunOfBytes.SEGMENT if codec else _find_run(offsets, counts, page, dtype.itemsize, path)
    return Structure(
        shape=shape,
        dtype=dtype,
        cuts=cuts,
        tiled=bool(page.is_tiled),
        offsets=_firsts(offsets, run),
        counts=_firsts(counts, run),
        codec=told.codec if told is not None and told.codec.names == codec.names else codec,
        by_tifffile=by_tifffile,
        run=run,
        pages=len(series),
        row=(int(page.tilewidth or page.imagewidth), int(page.samplesperpixel) if page.planarconfig == 1 else 1),
        axes=_axes(series, shape) if told is None else told.axes,
        fill=_fill(page, dtype) if told is None else told.fill,
        ome=ome,
        record=NO_RECORD if told is None else told.record,
        **_metadata(page, told, text),
    )


def _codec(page: Any, path: str) -> tuple[Codec, bool]:
    """The codec of segments, and whether tifffile decodes them."""
    compression, predictor = int(page.compression), int(page.predictor)
    whole = page.dtype.itemsize * 8 == page.bitspersample and page.fillorder == 1 and not page.is_subsampled
    if predictor != 1 and (predictor not in _PREDICTORS or (predictor == 3) > (page.dtype.kind == "f")):
        raise FormatError(f"{path}: predictor {predictor} of elements of {page.dtype} is not supported")
    if compression == 1 and predictor == 1:
        return (Codec(), False) if whole else (Codec((Stage.of("bits"),)), True)
    if compression in CODECS and whole and page.dtype.kind != "c":
        kind = _PREDICTORS.get(predictor)
        first = () if kind is None else (Stage.of("predictor", **_unusual(kind, page.dtype)),)
        return Codec((*first, CODECS[compression])), False
    if compression in CODECS and whole and predictor == 1:
        return Codec((CODECS[compression],)), False
    if compression in _BY_TIFFFILE or compression in CODECS or compression == 1:
        name = _BY_TIFFFILE.get(compression) or (CODECS[compression].name if compression in CODECS else "bits")
        return Codec((Stage.of(name, bits=int(page.bitspersample)),)), True
    name = getattr(page.compression, "name", str(compression))
    raise FormatError(
        f"{path}: compression {name} is not supported; none, LZW, Deflate, PackBits, LZMA, Zstandard, CCITT "
        "and JPEG are"
    )


def _unusual(kind: str, dtype: np.dtype[Any]) -> dict[str, str]:
    """The setting for a predictor other than the usual one of a type."""
    return {} if kind == usual_kind(dtype) else {"kind": kind}


def _cuts(shape: tuple[int, ...], page: Any, pages: int, path: str, *, follows: bool) -> tuple[int, ...] | None:
    """Length of a segment along each axis; None if the pages are not the innermost axes of the array."""
    lengths = {"X": page.tilewidth or page.imagewidth, "Y": page.tilelength or min(page.rowsperstrip, page.imagelength)}
    lengths["S"] = 1 if page.planarconfig == 2 else page.samplesperpixel
    if not lengths["Y"] or not lengths["X"] or len(page.axes) != len(page.shape) or set(page.axes) - set("SYX"):
        raise FormatError(f"{path}: pages with the axes {page.axes} and segments of {lengths} are not supported")
    cuts, place = [1] * len(shape), len(shape) - 1
    for letter, length in zip(reversed(page.axes), reversed(page.shape), strict=True):
        cut = int(lengths[letter])
        while place >= 0 and shape[place] == 1 != length:
            place -= 1  # tifffile keeps axes of length 1 that no page has
        if place >= 0 and shape[place] == length:
            cuts[place] = cut
            place -= 1
        elif length != 1 or cut != 1:
            return None
    return tuple(cuts) if follows or prod(shape[: place + 1]) == pages else None


def _places(series: Any, path: str) -> tuple[Integers, Integers]:
    """Offsets and stored bytes of all segments, a row for each page."""
    per_page = int(prod(series.keyframe.chunked))
    if len(series) * per_page > _MAX_SEGMENTS or per_page != len(series.keyframe.dataoffsets):
        listed = len(series.keyframe.dataoffsets)
        raise FormatError(
            f"{path}: {len(series):,} pages of {per_page:,} strips or tiles, {listed:,} of them are listed; the limit "
            f"is {_MAX_SEGMENTS:,}"
        )
    offsets, counts = (np.zeros((len(series), per_page), np.int64) for _ in range(2))
    for number, page in enumerate(series.pages):
        if page is None:
            continue
        if not len(page.dataoffsets) == len(page.databytecounts) == per_page:
            raise FormatError(
                f"{path}: page {number:,} lists {len(page.dataoffsets):,} places and {len(page.databytecounts):,} "
                f"sizes of its {per_page:,} strips or tiles"
            )
        if max(page.dataoffsets, default=0) >= 1 << 63 or max(page.databytecounts, default=0) >= 1 << 63:
            raise FormatError(f"{path}: strips or tiles of page {number:,} are beyond byte 2**63")
        offsets[number], counts[number] = page.dataoffsets, page.databytecounts
    return offsets, counts


def _check_places(offsets: Integers, counts: Integers, size: int, path: str) -> None:
    """CorruptError if segments are outside of the file."""
    ends = offsets + counts
    wrong = (ends > size) | (ends < 0)
    if wrong.any():
        _report(int(np.argmax(wrong)), offsets, counts, f"the file has {size:,} bytes", path)


def _report(number: int, offsets: Integers, counts: Integers, why: str, path: str) -> NoReturn:
    start, length = int(offsets.flat[number]), int(counts.flat[number])
    page, segment = divmod(number, offsets.shape[1])
    raise CorruptError(
        f"{path}: strip or tile {segment:,} of page {page:,} has {length:,} bytes at byte {start:,}, {why}: the file "
        "is cut off, or its directory is wrong"
    )


def _find_run(offsets: Integers, counts: Integers, page: Any, itemsize: int, path: str) -> RunOfBytes:
    """The largest pieces of an array that are one run of bytes each; CorruptError if raw segments are too short."""
    samples, planes = (1, int(page.samplesperpixel)) if page.planarconfig == 2 else (int(page.samplesperpixel), 1)
    width, rows, height = int(page.tilewidth or page.imagewidth), int(page.tilelength), int(page.imagelength)
    if page.is_tiled:
        whole = width == page.imagewidth and height % rows == 0
        lengths = np.full(-(-height // rows) * -(-int(page.imagewidth) // width), rows)
    else:
        step, whole = min(int(page.rowsperstrip), height), True
        lengths = np.minimum(step, height - np.arange(0, height, step))
    needed = np.tile(lengths * width * samples * itemsize, planes)
    short = (counts < needed) & (offsets > 0)
    if short.any():
        number = int(np.argmax(short))
        _report(number, offsets, counts, f"its elements take {int(needed[number % len(needed)]):,}", path)
    follow = bool((offsets[:, 1:] == offsets[:, :-1] + needed[:-1]).all())
    if not whole or not follow or not offsets.all():
        return RunOfBytes.SEGMENT
    return RunOfBytes.ARRAY if (offsets[1:, 0] == offsets[:-1, 0] + needed.sum()).all() else RunOfBytes.PAGE


def _firsts(places: Integers, run: RunOfBytes) -> Integers:
    """The places that begin a run."""
    return {RunOfBytes.SEGMENT: places.reshape(-1), RunOfBytes.PAGE: places[:, 0], RunOfBytes.ARRAY: places[:1, 0]}[
        run
    ].copy()


def _axes(series: Any, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """The letters of the axes, if each has a meaning of its own."""
    letters = str(series.axes)
    known = len(letters) == len(shape) == len(set(letters)) and "Q" not in letters
    return tuple(letters) if known and shape else None


def _fill(page: Any, dtype: np.dtype[Any]) -> Any:
    """The value of tiles that are not stored, if the file names one."""
    if page.tags.get(42113) is None:
        return None
    with np.errstate(all="ignore"):
        return np.array(page.nodata).astype(dtype)[()]


def _metadata(page: Any, told: Told | None, text: str) -> dict[str, Any]:
    attributes, notes = attributes_of(page)
    notes += _colour_notes(page)
    if told is not None:
        return {"attributes": attributes | told.attributes, "notes": ()}
    if text and not page.is_shaped:
        if len(text) <= MAX_TEXT:
            attributes["ImageDescription"] = text
        else:
            notes.append(f"tag ImageDescription of {len(text):,} characters is not kept: the limit is {MAX_TEXT:,}")
    return {"attributes": attributes, "notes": tuple(notes)}


def _colour_notes(page: Any) -> list[str]:
    """What elements mean as colours, if that is neither grey, black at 0, nor red, green and blue."""
    photometric, jpeg = int(page.photometric), int(page.compression) == 7
    # JPEG is decoded to red, green and blue.
    if photometric in (1, 2) or (photometric == 6 and jpeg):
        return []
    known = {0: "0 is white", 3: "elements are numbers of colours in a palette"}
    name = getattr(page.photometric, "name", str(photometric))
    return [f"elements are as they are stored; that {known.get(photometric, f'they are {name}')} is not kept"]
