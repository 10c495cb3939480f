"""Adapt a schema to NIfTI: the nearest array that a file can hold, with the header that it will have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import FormatError, UsageError, option
from reblock.geometry import Grid
from reblock.geometry.grid import chunk_text
from reblock.model.codec import Codec
from reblock.model.schema import Schema
from reblock.storage.nifti.header import (
    AXES,
    HEADER,
    MAX_LENGTH,
    NiftiHeader,
    affine_of,
    attributes_of,
    code_of,
    fields_of,
    is_code_of,
    magic_of,
    parse_header,
    preamble_in,
)
from reblock.storage.space import AFFINE, affine_in, affine_of_minc, has_ranges, slope_of_minc

#: Elements begin at a multiple of this.
_ALIGNMENT = 16
#: Code of an affine that another image defines.
_ALIGNED = 2
#: Affines are the same if they differ by at most this: steps relatively, origins in voxels and relatively.
_ROUNDING, _PART_OF_VOXEL, _DIGITS = 1e-6, 1e-3, 1e-9


def adapt_schema(schema: Schema, asked: Collection[str], codec: Codec, chunks: tuple[int, ...]) -> Schema:
    """The nearest schema of a file with a codec and chunks; UsageError if a requested field cannot be held."""
    if not 1 <= schema.ndim <= 7:
        raise UsageError(f"NIfTI holds 1 to 7 axes, not {schema.ndim}; zarr and hdf5 hold any number")
    order = tuple(reversed(range(schema.ndim)))
    if "order" in asked and schema.order != order:
        raise UsageError(f"NIfTI stores the first axis fastest, not axes {list(schema.order)}; transpose instead")
    if schema.shards is not None and "shards" in asked:
        raise UsageError(f"NIfTI has no shards: leave out {option('shards')}")
    notes = list(schema.notes)
    preamble = _preamble(schema, notes)
    fields = fields_of(preamble[: _size(preamble)], _version(preamble))
    if "chunks" in asked and schema.chunks != chunks and Grid.of(schema.shape, schema.chunks).count > 1:
        notes.append(f"chunks {chunk_text(schema.chunks)} are ignored: NIfTI is one array without chunks")
    if schema.fill_value is not None:
        notes.append(f"fill value {schema.fill_value!s} is not kept: NIfTI has none")
    if schema.codec and str(schema.codec) != str(codec):
        notes.append(f"codec {schema.codec} is not kept: {f'it becomes {codec}' if codec else 'NIfTI is not encoded'}")
    others = [name for name in schema.attributes if name not in (HEADER, AFFINE)]
    if others:
        notes.append(f"attributes {', '.join(others)} are not kept: a NIfTI header has no place for them")
    if 0 in schema.shape:
        notes.append("other programs may refuse a NIfTI file without elements")
    return replace(
        schema,
        chunks=chunks,
        shards=None,
        order=order,
        codec=codec,
        fill_value=None,
        attributes=attributes_of(preamble, fields),
        axes=_axes(schema, notes),
        notes=tuple(dict.fromkeys(notes)),
    )


def preamble_of(schema: Schema) -> bytes:
    """The bytes before the elements of an array with an adapted schema."""
    preamble = preamble_in(schema.attributes[HEADER])
    if preamble is None:
        raise UsageError(f"attribute {HEADER!r} is not a NIfTI header")
    return preamble


def _size(preamble: bytes) -> int:
    little = int.from_bytes(preamble[:4], "little")
    return little if little in (348, 540) else int.from_bytes(preamble[:4], "big")


def _version(preamble: bytes) -> int:
    return 1 if _size(preamble) == 348 else 2


def _axes(schema: Schema, notes: list[str]) -> tuple[str, ...]:
    names = AXES[: schema.ndim]
    if schema.axes is not None and schema.axes != names:
        turned = sorted(schema.axes) == sorted(names)
        order = ",".join(str(schema.axes.index(name)) for name in names) if turned else ""
        hint = f"; transposed by {order}, each axis would be in its place" if turned else ""
        notes.append(
            f"axis names {', '.join(schema.axes)} are not kept: axes of NIfTI are {', '.join(names)}, by position{hint}"
        )
    return names


# ---------------------------------------------------------------- the header
def _preamble(schema: Schema, notes: list[str]) -> bytes:
    """The header and what follows it, for an array with this schema."""
    found = _given(schema, notes)
    code = _code(schema.dtype, found[0] if found else None)
    if found is None:
        if (
            schema.dtype.kind in "iu"
            and has_ranges(schema.attributes)
            and not slope_of_minc(schema.attributes, schema.dtype)
        ):
            notes.append("slices have real ranges of their own, NIfTI has one slope: its values are the stored ones")
        version = 1 if max(schema.shape) <= MAX_LENGTH else 2
        fields, rest = _new_fields(version, schema), bytes(4)
    else:
        header, rest = found
        fields, version = _same_order(fields_of(header.fixed, header.version), header, schema.dtype), header.version
        if header.shape != schema.shape and version == 1 and max(schema.shape) > MAX_LENGTH:
            notes.append(f"the header became NIfTI-2: NIfTI-1 has at most {MAX_LENGTH:,} elements along an axis")
            fields, version = _second(fields), 2
        if header.shape != schema.shape:
            _set_shape(fields, schema.shape)
        if not is_code_of(header.code, schema.dtype):
            fields["datatype"], fields["bitpix"] = code, 8 * schema.dtype.itemsize
    _set_affine(fields, schema, notes)
    fields["magic"] = magic_of(version)
    size = len(fields.binaryblock)
    if found is None or found[0].paired or found[0].offset != size + len(rest):
        rest += bytes(-(size + len(rest)) % _ALIGNMENT)
        fields["vox_offset"] = size + len(rest)
    result: bytes = fields.binaryblock + rest
    return result


def _given(schema: Schema, notes: list[str]) -> tuple[NiftiHeader, bytes] | None:
    """The header among the attributes, and what follows it; None if there is none."""
    if HEADER not in schema.attributes:
        return None
    preamble = preamble_in(schema.attributes[HEADER])
    try:
        if preamble is None:
            raise FormatError("it is not base64")
        header = parse_header(preamble, "it")
    except FormatError as error:
        notes.append(f"attribute {HEADER!r} is not kept, a new header is made: {error}")
        return None
    return header, preamble[len(header.fixed) :].ljust(4, b"\0")


def _code(dtype: np.dtype[Any], header: NiftiHeader | None) -> int:
    if header is not None and is_code_of(header.code, dtype):
        return header.code
    code = code_of(dtype)
    if code is None:
        instead = {"b": "uint8", "f": "float32"}.get(dtype.kind)
        advice = f"; {option('dtype', instead)} would do" if instead else "; zarr and npy hold it"
        raise UsageError(
            f"NIfTI cannot hold elements of {dtype}: it holds integers of 8 to 64 bits, float32, float64, "
            f"complex64, complex128 and colours of 3 or 4 bytes (V3, V4){advice}"
        )
    return code


def _new_fields(version: int, schema: Schema) -> Any:
    import nibabel

    kind = nibabel.Nifti1Header if version == 1 else nibabel.Nifti2Header
    fields = kind(endianness=">" if schema.dtype.str[0] == ">" else "<")
    _set_shape(fields, schema.shape)
    fields["datatype"], fields["bitpix"] = code_of(schema.dtype), 8 * schema.dtype.itemsize
    # 1 = no scaling; 0 would mean the same, and some programs divide by it.
    fields["scl_slope"], fields["scl_inter"] = slope_of_minc(schema.attributes, schema.dtype) or (1, 0)
    fields["xyzt_units"] = 0
    return fields


def _set_shape(fields: Any, shape: tuple[int, ...]) -> None:
    fields["dim"] = [len(shape), *shape, *[1] * (7 - len(shape))]


def _same_order(fields: Any, header: NiftiHeader, dtype: np.dtype[Any]) -> Any:
    """The header in the byte order of the elements, which is the same by definition."""
    if dtype.itemsize == 1 or dtype.kind == "V":
        return fields
    big = dtype.str[0] == ">"
    return fields if big == header.big else fields.as_byteswapped(">" if big else "<")


def _second(fields: Any) -> Any:
    """A header of NIfTI-1 as one of NIfTI-2, with the same values."""
    import nibabel

    other = nibabel.Nifti2Header(endianness=fields.endianness)
    for name in fields.keys():  # noqa: SIM118 - a header is no mapping
        if name in other.keys() and name not in ("sizeof_hdr", "magic"):  # noqa: SIM118
            other[name] = fields[name]
    return other


def _set_affine(fields: Any, schema: Schema, notes: list[str]) -> None:
    """Set the affine among the attributes, if the header has another: after a crop, or from another format."""
    given = affine_in(schema.attributes.get(AFFINE))
    if given is None:
        given = affine_of_minc(schema.attributes, schema.axes)
    if given is None:
        if AFFINE in schema.attributes:
            notes.append(f"attribute {AFFINE!r} is not kept: it is not a 4 × 4 matrix of numbers")
        return
    before = affine_of(fields)
    if before is not None and _is_same_place(before, given):
        return
    codes = int(fields["qform_code"]), int(fields["sform_code"])
    try:
        with np.errstate(all="ignore"):
            fields.set_qform(_moved_qform(fields, before, given), code=max(codes[0], 0), strip_shears=True)
            fields.set_sform(given, code=codes[1] if codes[1] > 0 else max(codes[0], 0) or _ALIGNED)
    except Exception as error:  # noqa: BLE001 - nibabel raises many kinds of errors for odd matrices
        notes.append(f"attribute {AFFINE!r} is not kept: {' '.join(str(error).split())}")
        return
    if before is not None:
        notes.append("the affine of the header was replaced by that among the attributes")


def _moved_qform(
    fields: Any, before: npt.NDArray[np.float64] | None, given: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The qform after what an affine became: it may lead to another space than sform, and is moved as that was."""
    both = int(fields["qform_code"]) > 0 and int(fields["sform_code"]) > 0
    if before is None or not both or not np.linalg.det(before[:3, :3]):
        return given
    moved: npt.NDArray[np.float64] = fields.get_qform() @ np.linalg.solve(before, given)
    return moved if np.isfinite(moved).all() else given


def _is_same_place(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
    """Whether two affines differ by rounding only, compared with the size of a voxel, whatever the unit is."""
    sizes = np.linalg.norm(one[:3, :3], axis=0)
    turned = np.abs(one[:3, :3] - other[:3, :3]).max(axis=0)
    moved = np.abs(one[:3, 3] - other[:3, 3]).max()
    farthest = np.abs(one[:3, 3]).max()
    return bool((turned <= _ROUNDING * sizes).all() and moved <= _PART_OF_VOXEL * sizes.min() + _DIGITS * farthest)
