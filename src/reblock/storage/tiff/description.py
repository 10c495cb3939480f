"""The text of tag ImageDescription: our own document in JSON, and OME-XML.

::

    tiff      {"shape": [5, 64, 64], "axes": "ZYX", "reblock": {…}}      the first members are those of tifffile
    ometiff   <OME …><Image><Pixels DimensionOrder="XYZCT" …/></Image><StructuredAnnotations>… {"reblock": {…}}

Our member has what tags cannot hold: axis names, codec settings, fill value, attributes, and the record of the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from reblock.errors import FormatError, UsageError
from reblock.model.codec import Codec
from reblock.model.schema import Record, Schema, element
from reblock.storage.checks import MAX_BYTES, MAX_JSON_BYTES, show
from reblock.storage.records import record_from_json, record_to_json

MEMBER = "reblock"
#: The longest OME-XML that is parsed.
MAX_XML_BYTES = 64 << 20
#: What OME-XML tells of the sizes of pixels, and the longest value that is copied.
_MEASURES = tuple(
    f"{name}{unit}"
    for name in ("PhysicalSizeX", "PhysicalSizeY", "PhysicalSizeZ", "TimeIncrement")
    for unit in ("", "Unit")
)
_MAX_VALUE = 256
#: The namespace of OME-XML, and names of its types.
_OME = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
OME_TYPES = {
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "f4": "float",
    "f8": "double",
    "c8": "complex",
    "c16": "double-complex",
}


class Told(NamedTuple):
    """What a description of ours says about its array."""

    shape: tuple[int, ...]
    axes: tuple[str, ...] | None
    codec: Codec
    fill: Any
    attributes: dict[str, Any]
    record: Record


# ---------------------------------------------------------------- writing
def describe(schema: Schema, attributes: Mapping[str, Any], record: Record, samples: int, *, ome: bool) -> bytes:
    """The text of a new file; `attributes` are those that no tag holds."""
    fill = schema.fill_value
    ours = {
        "shape": list(schema.shape),
        "axes": None if schema.axes is None else list(schema.axes),
        "codec": str(schema.codec),
        "fill_value": None if fill is None else element(fill, schema.dtype).tobytes().hex(),
        "attributes": dict(attributes),
        **record_to_json(record),
    }
    if ome:
        return _to_ome(schema, samples, json.dumps({MEMBER: ours})).encode("ascii", "xmlcharrefreplace")
    letters = "".join(schema.axes or ())
    named = (
        len(letters) == schema.ndim > 1
        and letters.isascii()
        and letters.isupper()
        and len(set(letters)) == len(letters)
    )
    return json.dumps({"shape": list(schema.shape), **({"axes": letters} if named else {}), MEMBER: ours}).encode(
        "ascii"
    )


def ome_letters(schema: Schema) -> str:
    """The axes in OME's letters, outermost first; UsageError if OME-XML has no place for them."""
    known = {"T": "T", "TIME": "T", "C": "C", "CHANNEL": "C", "Z": "Z", "DEPTH": "Z", "Y": "Y", "X": "X", "S": "S"}
    samples = bool(schema.axes) and schema.ndim > 2 and schema.axes is not None and schema.axes[-1] == "S"
    count = schema.ndim - samples
    if count < 2:
        raise UsageError(f"OME-TIFF holds images of 2 to 5 axes, not {schema.ndim}: use tiff")
    if count > 5:
        raise UsageError(f"OME-TIFF holds at most the axes T, C, Z, Y and X, not {schema.ndim} axes: use tiff")
    letters = [known.get(name.upper(), "") for name in schema.axes or ()]
    if all(letters) and len(set(letters)) == len(letters) and letters and letters[count - 2 : count] == ["Y", "X"]:
        return "".join(letters)
    # Axes without names that OME knows are numbered from the innermost.
    return "TCZYX"[5 - count :] + "S" * samples


def _to_ome(schema: Schema, samples: int, ours: str) -> str:
    letters = ome_letters(schema)
    sizes = dict(zip(letters, schema.shape, strict=True))
    planes = sizes.get("C", 1)
    order = "XY" + "".join(reversed([a for a in letters if a not in "YXS"]))
    order += "".join(a for a in "ZCT" if a not in order)
    kind = OME_TYPES[schema.dtype.str[1:]]
    big = "true" if schema.dtype.str[0] == ">" else "false"
    measures, names = _measures(schema, letters)
    named = names if len(names) == planes else [""] * min(planes, 1 << 16)
    channels = "".join(
        f'<Channel ID="Channel:0:{n}"{name} SamplesPerPixel="{samples}"/>' for n, name in enumerate(named)
    )
    pixels = (
        f'<Pixels ID="Pixels:0" DimensionOrder="{order}" Type="{kind}" BigEndian="{big}" Interleaved="true" '
        f'SizeX="{sizes["X"]}" SizeY="{sizes["Y"]}" SizeC="{planes * samples}" SizeZ="{sizes.get("Z", 1)}" '
        f'SizeT="{sizes.get("T", 1)}"{measures}>{channels}<TiffData IFD="0" '
        f'PlaneCount="{planes * sizes.get("Z", 1) * sizes.get("T", 1)}"/></Pixels>'
    )
    schema_place = quoteattr(f"{_OME} {_OME}/ome.xsd")
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="{_OME}" '
        f'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation={schema_place} Creator="reblock">'
        f'<Image ID="Image:0" Name="array">{pixels}</Image><StructuredAnnotations>'
        f'<CommentAnnotation ID="Annotation:0" Namespace="{MEMBER}"><Value>{escape(ours)}</Value></CommentAnnotation>'
        "</StructuredAnnotations></OME>"
    )


def _measures(schema: Schema, letters: str) -> tuple[str, list[str]]:
    """Sizes of pixels, and names of channels, in the OME-XML that an array came with, as attributes of XML."""
    text = schema.attributes.get("ImageDescription")
    if not isinstance(text, str) or not is_xml(text) or tuple(letters) != schema.axes:
        return "", []
    try:
        pixels = next(_named(parse_ome(text, "it"), "Pixels"), None)
    except FormatError:
        return "", []
    if pixels is None:
        return "", []
    found = "".join(_attribute(pixels, name) for name in _MEASURES if _is_size(pixels, name))
    return found, [_attribute(one, "Name") for one in _named(pixels, "Channel")]


def _is_size(pixels: ET.Element, name: str) -> bool:
    try:
        return 0 < float(pixels.get(name.removesuffix("Unit"), "")) < float("inf")
    except ValueError:
        return False


def _attribute(element: ET.Element, name: str) -> str:
    value = element.get(name, "")
    return f" {name}={quoteattr(value)}" if 0 < len(value) <= _MAX_VALUE else ""


# ---------------------------------------------------------------- reading
def is_xml(text: str) -> bool:
    """Whether a description is meant to be OME-XML."""
    head = text[:4096].lstrip("\ufeff \t\r\n")
    return head.startswith("<") and "<OME" in head


def check_ome(text: str, pages: int, samples: int, where: str) -> str:
    """Our own document in OME-XML, or ""; FormatError if the XML is broken, or promises more planes than there are."""
    root = parse_ome(text, where)
    for pixels in _named(root, "Pixels"):
        sizes = [_size(pixels, f"Size{letter}", where) for letter in "TCZYX"]
        planes = sizes[0] * sizes[1] * sizes[2]
        if planes > pages * samples:
            raise FormatError(
                f"{where}: its OME-XML promises {planes:,} planes, the file has {pages:,} pages of {samples} samples: "
                "the others are missing, or in other files, which are not opened"
            )
    for note in _named(root, "CommentAnnotation"):
        if note.get("Namespace") == MEMBER:
            return next((value.text or "" for value in _named(note, "Value")), "")
    return ""


def parse_ome(text: str, where: str) -> ET.Element:
    """The tree of OME-XML; FormatError if it is broken, too long, or declares anything."""
    if len(text) > MAX_XML_BYTES:
        raise FormatError(f"{where}: OME-XML of {len(text):,} characters, the limit is {MAX_XML_BYTES:,}")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise FormatError(f"{where}: its OME-XML declares entities, which are not read")
    try:
        return ET.fromstring(text)  # noqa: S314 - without declarations there are no entities to expand
    except (ET.ParseError, ValueError) as error:
        raise FormatError(f"{where}: its OME-XML is broken: {error}") from None


def _named(root: ET.Element, name: str) -> Iterator[ET.Element]:
    return (one for one in root.iter() if str(one.tag).rpartition("}")[2] == name)


def _size(pixels: ET.Element, name: str, where: str) -> int:
    text = pixels.get(name, "")
    if not (text.isascii() and text.isdecimal() and 0 < len(text) <= 19 and int(text)):
        raise FormatError(f"{where}: {name} of its OME-XML is {show(text)}, not a number of at least 1")
    return int(text)


def read_ours(text: str, dtype: np.dtype[Any]) -> Told | None:
    """What a description of ours says; None for any other."""
    if f'"{MEMBER}"' not in text or len(text) > MAX_JSON_BYTES:
        return None
    try:
        found = json.loads(text)[MEMBER]
        axes, fill = found["axes"], found["fill_value"]
        value = None
        if fill is not None:
            (value,) = np.frombuffer(bytes.fromhex(fill), dtype)
        shape = _integers(found["shape"])
        names = None if axes is None else tuple(str(name) for name in axes)
        if not isinstance(found["attributes"], dict) or (names is not None and len(names) != len(shape)):
            return None
        codec = Codec.parse(str(found["codec"]))
        return Told(shape, names, codec, value, found["attributes"], record_from_json(found))
    except (ValueError, TypeError, LookupError, RecursionError, UsageError):
        return None


def _integers(values: Sequence[Any]) -> tuple[int, ...]:
    if not all(isinstance(value, int) and 0 < value < MAX_BYTES for value in values):
        raise ValueError(values)
    return tuple(values)
