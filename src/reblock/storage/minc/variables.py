"""The variables of a MINC file beside its image, as attributes of the array and back.

MINC keeps metadata as attributes of variables, in a notation that `mincinfo` has as well ::

    history            an attribute of the file
    xspace:step        an attribute of a variable: of a dimension, of the image, or of a group such as `study`
    image-min          the values of a variable: of the slices' real minima, or the coordinates along an axis

In this form they survive in other formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reblock.errors import FormatError
from reblock.storage.space import SPATIAL, array_in

IMAGE, IMAGE_MIN, IMAGE_MAX = "image", "image-min", "image-max"
#: Names of axes that MINC defines.
STANDARD = (*SPATIAL, "time", "vector_dimension", "xfrequency", "yfrequency", "zfrequency", "tfrequency")


@dataclass
class Variable:
    """A variable."""

    attributes: dict[str, Any] = field(default_factory=dict)
    """Its attributes."""
    value: Any = None
    """Its elements, as an array, if they mean anything."""


@dataclass
class Variables:
    """The variables of a file, and the attributes of the file itself."""

    attributes: dict[str, Any] = field(default_factory=dict)
    """Attributes of the file."""
    variables: dict[str, Variable] = field(default_factory=dict)
    """Variables by name."""

    def of(self, name: str) -> Variable:
        """A variable, which is made if there is none."""
        return self.variables.setdefault(name, Variable())

    def is_dimension(self, name: str, axes: tuple[str, ...]) -> bool:
        """Whether a variable describes an axis."""
        return name in axes or name in STANDARD or "length" in self.of(name).attributes

    # ---------------------------------------------------------------- attributes of an array
    def flat(self) -> dict[str, Any]:
        """All of it as attributes of an array."""
        found = dict(self.attributes)
        for name, variable in self.variables.items():
            if variable.value is not None:
                found[name] = np.asarray(variable.value)[()]
            found |= {f"{name}:{key}": value for key, value in variable.attributes.items()}
        return found

    @classmethod
    def from_flat(cls, attributes: Mapping[str, Any]) -> Variables:
        """From attributes of an array; those that name no variable are attributes of the file."""
        made = cls()
        named = {key.partition(":")[0] for key in attributes if _is_of_variable(key)}
        for key, value in attributes.items():
            if _is_of_variable(key):
                name, _, inner = key.partition(":")
                made.of(name).attributes[inner] = value
            elif key in named | {IMAGE_MIN, IMAGE_MAX} and _numbers(value) is not None:
                made.of(key).value = _numbers(value)
            else:
                made.attributes[key] = value
        return made


def _is_of_variable(key: str) -> bool:
    name, colon, inner = key.partition(":")
    return bool(colon and name and inner and "/" not in name)


def _numbers(value: Any) -> Any:
    """Floats; None if a value is no number and no array of them."""
    if isinstance(value, str | bytes):
        return array_in(value)
    if isinstance(value, bool) or value is None:
        return None
    try:
        numbers = np.asarray(value)
        return numbers.astype(np.float64) if numbers.dtype.kind in "iuf" else None
    except (TypeError, ValueError):
        return None


def plain(value: Any) -> Any:
    """An attribute as files have it: text without padding, a single number instead of an array of one."""
    if isinstance(value, bytes):
        try:
            return bytes(value).rstrip(b"\0").decode()
        except UnicodeDecodeError:
            return np.bytes_(value)
    if isinstance(value, np.ndarray) and value.shape == (1,):
        return value[0]
    return value


def text_of(value: Any) -> str:
    """An attribute as text; "" if it is none."""
    return value if isinstance(value, str) else ""


def order_of(variable: Variable) -> tuple[str, ...]:
    """The names of the axes of a variable, slowest first."""
    return tuple(name for name in text_of(variable.attributes.get("dimorder")).split(",") if name)


def check_ranges(variables: Variables, shape: tuple[int, ...], axes: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with the minima and maxima of slices, in words."""
    for name in (IMAGE_MIN, IMAGE_MAX):
        variable = variables.of(name)
        if variable.value is None:
            yield f"{name} is missing"
            continue
        found = np.shape(variable.value)
        named = order_of(variable)
        if found and named and named != axes[: len(found)]:
            yield f"{name} is along {','.join(named)}, which are not the slowest axes of {','.join(axes)}"
        elif found != shape[: len(found)]:
            yield f"{name} has shape {list(found)}, the slowest axes {', '.join(axes)} have {list(shape)}"


def check_axes(named: tuple[str, ...], ndim: int, where: str) -> tuple[str, ...]:
    """Names of the axes of an image, from its attribute `dimorder`."""
    if len(named) != ndim:
        raise FormatError(f"{where}: image:dimorder names {len(named)} axes ({','.join(named)}), the image has {ndim}")
    if len(set(named)) != ndim:
        raise FormatError(f"{where}: image:dimorder names an axis twice: {','.join(named)}")
    return named
