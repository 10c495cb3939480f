"""Regions of interest: a box of the source, and for spheres and labels which of its elements are inside."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import DiskError, UsageError, option
from reblock.geometry import Box
from reblock.geometry.notation import Ranges, parse_region

Bools = npt.NDArray[np.bool_]
#: A sphere as callers give it: text or numbers, centre first, then the radius; `:` or None = the whole axis.
SphereGiven = str | Sequence[float | str | None]
#: The most regions of one call.
MAX_REGIONS = 100_000
#: The longest file of spheres in bytes.
_MAX_CSV_BYTES = 64 << 20
#: The longest name of a region.
_MAX_NAME = 100
#: Elements whose distances are computed at a time.
_STRETCH = 1 << 16
#: Elements at exactly the radius are inside, although squares are rounded.
_SLACK = 1 + 1e-12
_NAME = re.compile(r"[\w.+ -]*[\w+-]")


@dataclass(frozen=True)
class Region:
    """A region of interest."""

    name: str
    """Its name in results."""
    box: Box
    """The smallest box around it, inside the source."""
    attributes: Mapping[str, Any]
    """What describes it, for results that keep attributes; `origin` is the start of the box."""
    inside: Callable[[Box], Bools] | None = None
    """Marks the elements of a part of the box that belong to it; None = all do."""


@dataclass(frozen=True)
class Sphere:
    """A ball in elements; along axes without a centre everything is inside."""

    centre: tuple[float | None, ...]
    """Coordinates of its centre."""
    radius: float
    """Its radius; elements at this distance are inside."""

    def box(self, shape: Sequence[int]) -> Box | None:
        """The box of all elements whose coordinates are within the radius, each on its own; None if none is inside."""
        sides = []
        nearest = 0.0
        for centre, length in zip(self.centre, shape, strict=True):
            low, high = 0, length
            if centre is not None:
                low = max(math.ceil(centre - self.radius), 0)
                high = min(math.floor(centre + self.radius) + 1, length)
            if low >= high:
                return None
            if centre is not None:
                nearest += (min(max(round(centre), low), high - 1) - centre) ** 2
            sides.append((low, high))
        if nearest > self.radius**2 * _SLACK:
            return None
        return Box(tuple(low for low, _ in sides), tuple(high for _, high in sides))

    def inside(self, box: Box) -> Bools:
        """Marks the elements of a box that are inside."""
        found = np.empty(box.shape, np.bool_)
        squares = [
            np.zeros(stop - start) if centre is None else (np.arange(start, stop) - centre) ** 2
            for centre, start, stop in zip(self.centre, box.start, box.stop, strict=True)
        ]
        if not squares:
            found[...] = True
            return found
        rest = np.zeros(())
        for square in squares[1:]:
            rest = rest[..., None] + square
        step = max(_STRETCH // max(rest.size, 1), 1)
        for start in range(0, len(squares[0]), step):
            part = squares[0][start : start + step]
            found[start : start + step] = part.reshape(-1, *(1,) * rest.ndim) + rest[None] <= self.radius**2 * _SLACK
        return found


# ---------------------------------------------------------------- words
def box_regions(given: Sequence[Ranges], shape: tuple[int, ...], names: Sequence[str] | None) -> Iterator[Region]:
    """Regions that are boxes."""
    for number, ranges in enumerate(given):
        box = parse_region(ranges, shape, names)
        if not box.size and 0 not in shape:
            raise UsageError(f"the region {ranges!r} is empty")
        yield Region(f"region_{number}", box, {"origin": list(box.start)})


def sphere_regions(
    given: Sequence[tuple[str, SphereGiven]], shape: tuple[int, ...], first: int = 0
) -> Iterator[Region]:
    """Regions that are spheres, each with a name or ""."""
    for number, (name, words) in enumerate(given, first):
        sphere = parse_sphere(words, len(shape))
        box = sphere.box(shape)
        if box is None:
            size = " × ".join(map(str, shape))
            raise UsageError(f"the sphere {_text(words)} has no elements inside an array of {size}")
        description = {
            "origin": list(box.start),
            "centre": ["all" if one is None else one for one in sphere.centre],
            "radius": sphere.radius,
        }
        yield Region(check_name(name or f"sphere_{number}"), box, description, sphere.inside)


def parse_sphere(given: SphereGiven, ndim: int) -> Sphere:
    """A sphere such as `30,40,20,5`; `:` instead of a number takes the whole axis, as in `30,40,20,:,5`."""
    words = given.split(",") if isinstance(given, str) else list(given)
    if len(words) != ndim + 1:
        more = " (: takes a whole axis)" if len(words) <= ndim else ""
        raise UsageError(
            f"a sphere is a centre of {ndim} numbers and a radius, not {_text(given)} with {len(words)} numbers{more}"
        )
    numbers = [None if word is None or str(word).strip() in (":", "") else _number(word, given) for word in words]
    radius = numbers[-1]
    if radius is None or radius < 0:
        raise UsageError(f"the radius of a sphere is a number of at least 0, not {_text(given)}")
    if ndim and all(one is None for one in numbers[:-1]):
        raise UsageError(f"the sphere {_text(given)} has no centre: give at least one coordinate")
    return Sphere(tuple(numbers[:-1]), radius)


def read_spheres(path: str | os.PathLike[str], ndim: int) -> list[tuple[str, list[str]]]:
    """Spheres from a CSV file: a row for each, with a centre of `ndim` cells, the radius, and perhaps a name.

    A first row without numbers is a heading.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            text = file.read(_MAX_CSV_BYTES + 1)
    except OSError as error:
        raise DiskError.wrap(error, doing="reading", path=os.fspath(path)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{os.fspath(path)} is not text in UTF-8: {error}") from None
    if len(text) > _MAX_CSV_BYTES:
        raise UsageError(f"{os.fspath(path)}: the limit for a file of spheres is {_MAX_CSV_BYTES:,} bytes")
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if any(map(str.strip, row))]
    except csv.Error as error:
        raise UsageError(f"{os.fspath(path)} is not a CSV file: {error}") from None
    if rows and not any(map(_is_number, rows[0])):
        rows = rows[1:]
    if not rows:
        raise UsageError(f"{os.fspath(path)}: no spheres in it: each row is C0,C1,…,R, separated by commas")
    named = [len(row) == ndim + 2 or not (_is_number(row[-1]) or row[-1] == ":") for row in rows]
    return [(row[-1] if has else "", row[:-1] if has else row) for row, has in zip(rows, named, strict=True)]


def check_name(name: str) -> str:
    """A name of a region: it becomes that of an array in a dataset, so it must not lead anywhere else."""
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME or name.startswith((".", "__")):
        raise UsageError(f"{name!r} cannot name a region: use letters, digits, spaces and _ . + -, up to {_MAX_NAME}")
    return name


def check_regions(found: list[Region]) -> list[Region]:
    """Regions, if there are some and their names differ."""
    if not found:
        raise UsageError(
            f"no regions: give {option('regions')}, {option('spheres')}, {option('sphere_files')} or {option('masks')}"
        )
    if len(found) > MAX_REGIONS:
        raise UsageError(f"{len(found):,} regions, the limit is {MAX_REGIONS:,}")
    seen: set[str] = set()
    for region in found:
        if region.name in seen:
            raise UsageError(f"two regions have the name {region.name!r}")
        seen.add(region.name)
    return found


def _number(word: object, given: object) -> float:
    try:
        value = float(str(word))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1 << 53:
        raise UsageError(f"{str(word)!r} in the sphere {_text(given)} is not a number")
    return value


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _text(given: object) -> str:
    return given if isinstance(given, str) else ",".join(map(str, given)) if isinstance(given, Sequence) else str(given)
