"""Headers of NIfTI files: parsed with nibabel, checked against limits, and kept byte by byte.

::

    .nii      ├─ header (348 or 540 bytes) ─┼─ 4 bytes ─┼─ extensions ─┼─ elements, first axis fastest ─┤
              0                                                     offset
    .hdr .img the same in two files; elements begin at `offset` of the second one

Everything before the elements is kept as one run of bytes, the *preamble*. As the attribute `nifti_header` it survives
in other formats, as base64.
"""

from __future__ import annotations

import base64
import binascii
import warnings
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import FormatError
from reblock.storage.checks import check_shape, show
from reblock.storage.nifti_fields import NIFTI_HEADER
from reblock.storage.space import AFFINE

#: The attribute that holds the preamble as base64.
HEADER = NIFTI_HEADER
#: Names of the axes.
AXES = ("x", "y", "z", "t", "u", "v", "w")
#: The most bytes of extensions that are kept.
MAX_EXTENSIONS = 4 << 20
#: The longest axis of NIfTI-1.
MAX_LENGTH = 32_767
#: Bytes of the header of each version.
SIZES = {1: 348, 2: 540}
#: Magic of each version: in one file, in two files, and its offset.
_MAGIC = {1: (b"n+1\0", b"ni1\0", 344), 2: (b"n+2\0\r\n\x1a\n", b"ni2\0\r\n\x1a\n", 4)}
#: Types by their codes; colours and quadruple precision, which numpy lacks, are opaque bytes.
_TYPES = {
    2: "u1",
    4: "i2",
    8: "i4",
    16: "f4",
    32: "c8",
    64: "f8",
    128: "V3",
    256: "i1",
    512: "u2",
    768: "u4",
    1024: "i8",
    1280: "u8",
    1536: "V16",
    1792: "c16",
    2048: "V32",
    2304: "V4",
}
#: What the opaque types are.
_OPAQUE = {128: "RGB", 2304: "RGBA", 1536: "128-bit floats", 2048: "256-bit complex numbers"}


@dataclass(frozen=True, slots=True)
class NiftiHeader:
    """A checked header."""

    version: int
    """1 or 2."""
    fixed: bytes
    """The header without what follows it."""
    shape: tuple[int, ...]
    """Lengths of the axes."""
    dtype: np.dtype[Any]
    """Type of an element, byte order included."""
    code: int
    """The header's code of the type."""
    offset: int
    """Bytes before the first element, in its file."""
    paired: bool
    """Whether elements are in a second file."""

    @property
    def big(self) -> bool:
        """Whether numbers in the header are big-endian."""
        return int.from_bytes(self.fixed[:4], "big") == len(self.fixed)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the type."""
        if self.code not in _OPAQUE:
            return ()
        return (f"elements are {_OPAQUE[self.code]}, kept as {self.dtype.itemsize} bytes each",)


def version_of(head: bytes) -> tuple[int, bool] | None:
    """The version of a file that begins like this, and whether its elements are in a second file; None = no NIfTI."""
    for version, (single, pair, offset) in _MAGIC.items():
        size = SIZES[version]
        if size not in (int.from_bytes(head[:4], "little"), int.from_bytes(head[:4], "big")):
            continue
        # Some programs write other bytes after the NUL.
        found = head[offset : offset + 4]
        if len(head) >= 4 and found in (single[:4], pair[:4]):
            return version, found == pair[:4]
    return None


def parse_header(head: bytes, where: str) -> NiftiHeader:
    """Check the header at the start of a file; `head` is at least as long, unless the file is shorter."""
    found = version_of(head)
    if found is None:
        raise FormatError(f"{where}: not a NIfTI file: it has no header of 348 or 540 bytes with a NIfTI magic")
    version, paired = found
    size = SIZES[version]
    if len(head) < size:
        raise FormatError(f"{where}: the file ends inside its header, after {len(head)} of {size} bytes")
    fields = fields_of(head[:size], version)
    code, bits = int(fields["datatype"]), int(fields["bitpix"])
    if code not in _TYPES:
        known = ", ".join(map(str, _TYPES))
        raise FormatError(f"{where}: data type {code} is not supported; {known} are")
    dtype = np.dtype(_TYPES[code]).newbyteorder(fields.endianness)
    if bits != 8 * dtype.itemsize:
        raise FormatError(f"{where}: {bits} bits per element, but its data type {code} has {8 * dtype.itemsize}")
    shape = check_shape(_shape(fields, where), where=where, itemsize=dtype.itemsize)
    offset = _offset(fields, 0 if paired else size + 4, where)
    return NiftiHeader(version, head[:size], shape, dtype, code, offset, paired)


def _shape(fields: Any, where: str) -> list[int]:
    dims = [int(n) for n in fields["dim"]]
    if not 1 <= dims[0] <= 7:
        raise FormatError(f"{where}: {dims[0]} axes; NIfTI has 1 to 7")
    if dims[1] == -1:
        # FreeSurfer keeps lengths beyond 32,767 elsewhere in the header; nibabel knows where.
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dims[1 : 1 + dims[0]] = map(int, fields.get_data_shape())
    lengths = dims[1 : 1 + dims[0]]
    if any(n < 0 for n in lengths):
        raise FormatError(f"{where}: the lengths of the axes are {lengths}; none may be negative")
    return lengths


def _offset(fields: Any, least: int, where: str) -> int:
    offset = float(fields["vox_offset"])
    if not isfinite(offset) or offset != int(offset) or not least <= offset < 1 << 62:
        raise FormatError(f"{where}: elements begin at byte {show(offset)}; it must be a whole number from {least} on")
    return int(fields["vox_offset"])


def fields_of(fixed: bytes, version: int) -> Any:
    """The fields of a header, as nibabel has them; nothing is checked."""
    import nibabel

    kind = nibabel.Nifti1Header if version == 1 else nibabel.Nifti2Header
    little = int.from_bytes(fixed[:4], "little") == SIZES[version]
    return kind(fixed, endianness="<" if little else ">", check=False)


def magic_of(version: int) -> bytes:
    """The magic of a single file."""
    return _MAGIC[version][0]


def code_of(dtype: np.dtype[Any]) -> int | None:
    """The code of a type; None if NIfTI lacks it, or if its bytes may mean different things."""
    plain = dtype.newbyteorder("=").str[1:]
    return next((code for code, text in _TYPES.items() if text == plain and code not in (1536, 2048)), None)


def is_code_of(code: int, dtype: np.dtype[Any]) -> bool:
    """Whether a code is that of a type."""
    return _TYPES.get(code) == dtype.newbyteorder("=").str[1:]


def affine_of(fields: Any) -> npt.NDArray[np.float64] | None:
    """The affine of a header; None if it defines none, or one that is not finite."""
    if int(fields["qform_code"]) <= 0 and int(fields["sform_code"]) <= 0:
        return None
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            affine = np.asarray(fields.get_best_affine(), np.float64)
    except Exception:  # noqa: BLE001 - nibabel raises many kinds of errors for odd quaternions
        return None
    return affine if affine.shape == (4, 4) and np.isfinite(affine).all() else None


def attributes_of(preamble: bytes, fields: Any) -> dict[str, Any]:
    """The attributes of an array with this preamble."""
    affine = affine_of(fields)
    kept: dict[str, Any] = {HEADER: base64.b64encode(preamble).decode()}
    return kept if affine is None else {**kept, AFFINE: affine}


def preamble_in(value: Any) -> bytes | None:
    """The preamble in an attribute; None if it is none."""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if not isinstance(value, str) or len(value) > 2 * MAX_EXTENSIONS:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
