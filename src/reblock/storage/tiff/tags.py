"""Attributes and tags: which attribute a tag can hold, and which tags of a file become attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Types of values in a directory, with their struct letters; rationals are pairs of integers.
ASCII, SHORT, LONG, RATIONAL, DOUBLE, LONG8 = 2, 3, 4, 5, 12, 16
CODES = {ASCII: "s", SHORT: "H", LONG: "I", RATIONAL: "II", DOUBLE: "d", LONG8: "Q"}

#: Tags that are attributes, by name: number and type.
HELD: dict[str, tuple[int, int]] = {
    "DocumentName": (269, ASCII),
    "Orientation": (274, SHORT),
    "Make": (271, ASCII),
    "Model": (272, ASCII),
    "PageName": (285, ASCII),
    "XResolution": (282, RATIONAL),
    "YResolution": (283, RATIONAL),
    "ResolutionUnit": (296, SHORT),
    "Software": (305, ASCII),
    "DateTime": (306, ASCII),
    "Artist": (315, ASCII),
    "HostComputer": (316, ASCII),
    "Copyright": (33432, ASCII),
    "ModelPixelScaleTag": (33550, DOUBLE),
    "ModelTiepointTag": (33922, DOUBLE),
    "ModelTransformationTag": (34264, DOUBLE),
    "GeoKeyDirectoryTag": (34735, SHORT),
    "GeoDoubleParamsTag": (34736, DOUBLE),
    "GeoAsciiParamsTag": (34737, ASCII),
    "GDAL_METADATA": (42112, ASCII),
    "GDAL_NODATA": (42113, ASCII),
}
NUMBERS = {number: name for name, (number, _) in HELD.items()}
DESCRIPTION = 270
#: The orientation of all files that do not say otherwise, which is no attribute: the first element is at the top left.
_USUAL = (274, 1)
#: Tags that say where and how elements are stored.
STRUCTURAL = frozenset(
    (
        *(254, 255, 256, 257, 258, 259, 262, 266, 273, 277, 278, 279, 280, 281, 284, 292, 293, 297, 317, 320),
        *(322, 323, 324, 325, 330, 338, 339, 340, 341, 347, 512, 513, 514, 529, 530, 531, 532, 32997, 32998, 50838),
        *(50839, 65426),
    )
)
#: The longest text, and the most numbers, that become an attribute.
MAX_TEXT, MAX_VALUES = 1 << 20, 1 << 16


class Tag(NamedTuple):
    """A tag to be written."""

    number: int
    kind: int
    values: tuple[Any, ...] | bytes


def split_attributes(attributes: Mapping[str, Any]) -> tuple[list[Tag], dict[str, Any]]:
    """Tags for the attributes that one can hold unchanged, and the other attributes."""
    tags: list[Tag] = []
    rest: dict[str, Any] = {}
    for name, value in attributes.items():
        made = _tag(*HELD[name], value) if name in HELD else None
        if made is None:
            rest[name] = value
        else:
            tags.append(made)
    return tags, rest


def _tag(number: int, kind: int, value: Any) -> Tag | None:
    if kind == ASCII:
        fits = isinstance(value, str) and value.isascii() and value.isprintable() and value.strip() == value != ""
        return Tag(number, kind, value.encode("ascii") + b"\0") if fits else None
    if kind == RATIONAL:
        pair = isinstance(value, list) and len(value) == 2 and all(_is_integer(n, 32) for n in value)
        return Tag(number, kind, tuple(value)) if pair else None
    values = value if isinstance(value, list) and len(value) > 1 else [value]
    if kind == DOUBLE:
        return Tag(number, kind, tuple(values)) if all(isinstance(n, float) for n in values) else None
    return Tag(number, kind, tuple(values)) if all(_is_integer(n, 16) for n in values) else None


def _is_integer(value: Any, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << bits


def attributes_of(page: Any) -> tuple[dict[str, Any], list[str]]:
    """The attributes of a page of tifffile, and notes on tags that are not kept."""
    found: dict[str, Any] = {}
    lost: list[str] = []
    for tag in page.tags:
        number = int(tag.code)
        if number in STRUCTURAL or number == DESCRIPTION or (number, tag.value) == _USUAL:
            continue
        value = _plain(tag.value) if number in NUMBERS else None
        if value is None:
            lost.append(str(tag.name)[:40])
        else:
            found[NUMBERS[number]] = value
    notes = (
        [f"tags {', '.join(dict.fromkeys(lost[:20]))} are not kept: they have no form as attributes"] if lost else []
    )
    return found, notes


def _plain(value: Any) -> Any:
    """The value of a tag as a JSON value; None if it has none."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else None
    if isinstance(value, tuple | list):
        parts = [_plain(part) for part in value[: MAX_VALUES + 1]]
        return parts if len(parts) <= MAX_VALUES and None not in parts else None
    if isinstance(value, float):
        return value
    # Integers, and tifffile's enumerations, which are integers.
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None
