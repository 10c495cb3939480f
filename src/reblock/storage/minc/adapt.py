"""Adapt a schema to MINC2: an HDF5 dataset with named axes in space and a real range for each slice."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from reblock.errors import UsageError, option
from reblock.model.schema import Schema
from reblock.storage.hdf5.adapt import adapt_schema as adapt_hdf5
from reblock.storage.minc.variables import (
    IMAGE,
    IMAGE_MAX,
    IMAGE_MIN,
    STANDARD,
    Variables,
    check_ranges,
    plain,
)
from reblock.storage.nifti_fields import NIFTI_HEADER, slope_and_intercept
from reblock.storage.space import AFFINE, SPATIAL, affine_in, steps_of

#: Types that libminc reads.
_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")
#: Names of axes, by their number.
_USUAL: dict[int, tuple[str, ...]] = {
    1: ("xspace",),
    2: ("yspace", "xspace"),
    3: ("zspace", "yspace", "xspace"),
    4: ("time", "zspace", "yspace", "xspace"),
    5: ("time", "zspace", "yspace", "xspace", "vector_dimension"),
}
#: Names that other formats have for the same axes.
_ALIASES = {"x": "xspace", "y": "yspace", "z": "zspace", "t": "time"}
_COMMENTS = {
    "xspace": "X increases from patient left to right",
    "yspace": "Y increases from patient posterior to anterior",
    "zspace": "Z increases from patient inferior to superior",
}
#: Attributes of every variable.
_KIND = {"varid": "MINC standard variable", "version": "MINC Version    1.0"}


def adapt_schema(schema: Schema, asked: Collection[str]) -> Schema:
    """The nearest schema that a MINC2 file can have."""
    if not 1 <= schema.ndim <= 5:
        raise UsageError(f"MINC holds 1 to 5 axes, not {schema.ndim}; hdf5 and zarr hold any number")
    if schema.dtype.str[1:] not in _TYPES:
        instead = {"b": "uint8", "f": "float32", "i": "int32", "u": "uint32"}.get(schema.dtype.kind)
        advice = f"; {option('dtype', instead)} would do" if instead else "; hdf5 and zarr hold them"
        raise UsageError(
            f"MINC cannot hold elements of {schema.dtype}: it holds integers of 8 to 32 bits, float32 and "
            f"float64{advice}"
        )
    axes, notes = _axes(schema)
    if "codec" in asked and "zstd" in schema.codec.names:
        raise UsageError(
            f"MINC cannot hold codec {schema.codec}: libminc reads only what HDF5 itself decodes; use gzip:4"
        )
    made = adapt_hdf5(replace(schema, axes=None, hdf5=False, unlimited=()), asked)
    variables = Variables.from_flat({name: plain(value) for name, value in made.attributes.items()})
    _set_space(variables, schema, axes)
    _set_dimensions(variables, schema.shape, axes)
    scaling = slope_and_intercept(variables.attributes.get(NIFTI_HEADER)) or (1.0, 0.0)
    if made.dtype.kind == "f" and scaling != (1.0, 0.0):
        notes = [*notes, "slope and intercept of the NIfTI header are not applied: MINC scales integers only"]
    _set_image(variables, made.dtype, axes, scaling)
    if problem := next(check_ranges(variables, schema.shape, axes), None):
        raise UsageError(
            f"MINC scales slices along the slowest axes: {problem}; transpose so that they are first again, or "
            "convert to hdf5 or zarr"
        )
    return replace(made, axes=axes, attributes=variables.flat(), notes=tuple(dict.fromkeys((*made.notes, *notes))))


def _axes(schema: Schema) -> tuple[tuple[str, ...], list[str]]:
    """Names of the axes that MINC defines: the given ones, their aliases, or the usual ones."""
    given = schema.axes
    if given is not None and len(set(given)) == schema.ndim and all(name in STANDARD for name in given):
        return given, []
    affine = affine_in(schema.attributes.get(AFFINE))
    if affine is not None and NIFTI_HEADER in schema.attributes and schema.ndim in (3, 4):
        # Axes of NIfTI are named by position, those of MINC by direction.
        names = (*(SPATIAL[axis] for axis in _directions(affine)), "time")[: schema.ndim]
    elif given is not None and all(name in _ALIASES for name in given) and len(set(given)) == schema.ndim:
        names = tuple(_ALIASES[name] for name in given)
    else:
        names = _USUAL[schema.ndim]
    if given is None or given == names:
        return names, []
    return names, [f"axis names {', '.join(given)} became {', '.join(names)}: MINC defines its names"]


def _directions(affine: Any) -> tuple[int, ...]:
    """For each of three array axes the axis in space that it is closest to, each once."""
    weights = np.abs(affine[:3, :3]) / np.maximum(np.linalg.norm(affine[:3, :3], axis=0), 1e-300)
    return max(permutations(range(3)), key=lambda order: sum(weights[order[k], k] for k in range(3)))


def _set_space(variables: Variables, schema: Schema, axes: tuple[str, ...]) -> None:
    """Starts and steps from an affine, if the attributes have none of their own."""
    affine = affine_in(schema.attributes.get(AFFINE))
    variables.attributes.pop(AFFINE, None)
    if affine is None or any(f"{name}:step" in schema.attributes for name in SPATIAL):
        return
    if any(name not in SPATIAL for name in axes[:3]) or len(axes) < 3:
        return
    for name, (start, step, cosines) in zip(axes, steps_of(affine, [SPATIAL.index(n) for n in axes[:3]]), strict=False):
        variables.of(name).attributes |= {
            "start": np.float64(start),
            "step": np.float64(step),
            "direction_cosines": np.asarray(cosines, np.float64),
        }


def _set_dimensions(variables: Variables, shape: tuple[int, ...], axes: tuple[str, ...]) -> None:
    for name, length in zip(axes, shape, strict=True):
        variable = variables.of(name)
        usual: dict[str, Any] = {**_KIND, "vartype": "dimension____", "spacing": "regular__", "alignment": "centre"}
        if name != "vector_dimension":
            usual |= {"start": np.float64(0), "step": np.float64(1)}
        if name in SPATIAL:
            usual |= {
                "units": "mm",
                "comments": _COMMENTS[name],
                "direction_cosines": np.eye(3)[SPATIAL.index(name)],
            }
        # A file of MINC may lack any of these on purpose.
        kept = {} if "vartype" in variable.attributes else usual
        variable.attributes = {**kept, **variable.attributes, "length": np.uint32(length)}
        if variable.value is not None and np.shape(variable.value) != (length,):
            variable.value = None


def _set_image(variables: Variables, dtype: np.dtype[Any], axes: tuple[str, ...], scaling: tuple[float, float]) -> None:
    """The image's own attributes; without a real range, it follows from slope and intercept of a NIfTI header."""
    image = variables.of(IMAGE)
    info: Any = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    bounds = np.array([float(info.min), float(info.max)])
    image.attributes.pop("signtype", None)
    usual = {**_KIND, "vartype": "group________", "valid_range": bounds, "complete": "true_"}
    kept = {} if "vartype" in image.attributes else usual
    image.attributes = {**kept, **image.attributes, "dimorder": ",".join(axes)}
    if variables.of(IMAGE_MIN).value is None and variables.of(IMAGE_MAX).value is None:
        low, high = (bounds * scaling[0] + scaling[1] if dtype.kind in "iu" else np.array([0.0, 1.0])).tolist()
        image.attributes["valid_range"] = bounds
        variables.of(IMAGE_MIN).value, variables.of(IMAGE_MAX).value = np.float64(low), np.float64(high)
    for name in (IMAGE_MIN, IMAGE_MAX):
        variable = variables.of(name)
        variable.attributes = {**_KIND, "vartype": "var_attribute", **variable.attributes}
        if np.ndim(variable.value):
            variable.attributes.setdefault("dimorder", ",".join(axes[: np.ndim(variable.value)]))
