"""Hostile NIfTI files: headers that lie about dimensions, types and places, and gzip streams that end or swell."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

from corpus.cases import SAMPLE, case, write

EITHER = "FormatError|CorruptError"
BODY = SAMPLE.T.tobytes()
#: Offsets and formats of fields of a NIfTI-1 header.
FIELDS = {
    "sizeof_hdr": (0, "i"),
    "dim": (40, "8h"),
    "datatype": (70, "h"),
    "bitpix": (72, "h"),
    "pixdim": (76, "8f"),
    "vox_offset": (108, "f"),
    "scl_slope": (112, "f"),
    "scl_inter": (116, "f"),
    "qform_code": (252, "h"),
    "sform_code": (254, "h"),
    "srow": (280, "12f"),
    "magic": (344, "4s"),
}
#: The same of NIfTI-2.
FIELDS2 = {
    "sizeof_hdr": (0, "i"),
    "magic": (4, "8s"),
    "datatype": (12, "h"),
    "bitpix": (14, "h"),
    "dim": (16, "8q"),
    "pixdim": (104, "8d"),
    "vox_offset": (168, "q"),
}
DIM = (2, 8, 8, 1, 1, 1, 1, 1)
ONES = (1.0,) * 8


def nifti(*, order: str = "<", extension: bytes = bytes(4), body: bytes = BODY, **fields: Any) -> bytes:
    """A file of NIfTI-1 with some fields changed."""
    told = {"sizeof_hdr": 348, "dim": DIM, "datatype": 8, "bitpix": 32, "pixdim": ONES, "vox_offset": 352.0}
    return _header(348, FIELDS, order, {**told, "magic": b"n+1\0", **fields}) + extension + body


def nifti2(*, body: bytes = BODY, **fields: Any) -> bytes:
    """A file of NIfTI-2 with some fields changed."""
    told = {"sizeof_hdr": 540, "magic": b"n+2\0\r\n\x1a\n", "dim": DIM, "datatype": 8, "bitpix": 32, "pixdim": ONES}
    return _header(540, FIELDS2, "<", {**told, "vox_offset": 544, **fields}) + bytes(4) + body


def _header(size: int, places: dict[str, tuple[int, str]], order: str, fields: dict[str, Any]) -> bytes:
    header = bytearray(size)
    for name, value in fields.items():
        offset, kind = places[name]
        struct.pack_into(order + kind, header, offset, *(value if isinstance(value, tuple) else (value,)))
    return bytes(header)


def add(
    name: str, data: bytes, error: str = EITHER, run: str | None = None, *, file: str = "x.nii", **more: Any
) -> None:
    """Add a case of one file."""

    @case(f"nifti/{name}", error, run, **more)
    def _(folder: Path) -> str:
        write(folder / file, data)
        return file


add("whole", nifti(), "")
add("whole-2", nifti2(), "")
add("whole-big-endian", nifti(order=">", body=SAMPLE.T.astype(">i4").tobytes()), "")
add("dims-negative", nifti(dim=(2, -8, 8, 1, 1, 1, 1, 1)), quick=True)
add("dims-negative-2", nifti2(dim=(2, -8, 8, 1, 1, 1, 1, 1)))
add("dims-count-negative", nifti(dim=(-2, 8, 8, 1, 1, 1, 1, 1)))
add("dims-count-0", nifti(dim=(0, 8, 8, 1, 1, 1, 1, 1)))
add("dims-count-9", nifti(dim=(9, 8, 8, 1, 1, 1, 1, 1)))
add("dims-huge", nifti(dim=(7, *(32767,) * 7)), quick=True)
add("dims-huge-2", nifti2(dim=(7, *(1 << 62,) * 7)), quick=True)
add("dims-overflow-2", nifti2(dim=(2, 1 << 33, 1 << 31, 1, 1, 1, 1, 1)))
add("offset-beyond", nifti(vox_offset=1e9), quick=True)
add("offset-beyond-2", nifti2(vox_offset=1 << 62))
add("offset-negative", nifti(vox_offset=-352.0))
add("offset-negative-2", nifti2(vox_offset=-544))
add("offset-nan", nifti(vox_offset=float("nan")), quick=True)
add("offset-infinity", nifti(vox_offset=float("inf")))
add("offset-fraction", nifti(vox_offset=352.5), f"|{EITHER}")
add("offset-in-header", nifti(vox_offset=100.0), f"|{EITHER}")
add("bitpix-lies", nifti(bitpix=8), f"|{EITHER}", quick=True)
add("bitpix-negative", nifti(bitpix=-32), f"|{EITHER}")
add("datatype-unknown", nifti(datatype=4711), quick=True)
add("datatype-0", nifti(datatype=0))
add("datatype-bits", nifti(datatype=1, bitpix=1))
add("datatype-rgb", nifti(datatype=128, bitpix=24, body=bytes(192)), f"|{EITHER}")
add("datatype-long-double", nifti(datatype=1536, bitpix=128, body=bytes(1024)), f"|{EITHER}")
add("size-lies", nifti(sizeof_hdr=540))
add("magic-unknown", nifti(magic=b"n+9\0"))
add("body-cut", nifti(body=BODY[:-4]), says="promises", quick=True)
add("header-cut", nifti()[:300])
add("extension-endless", nifti(extension=b"\1\0\0\0" + struct.pack("<ii", 1 << 30, 6)), f"|{EITHER}")
add("extension-of-0", nifti(extension=b"\1\0\0\0" + struct.pack("<ii", 0, 6), vox_offset=360.0), f"|{EITHER}")
add("extension-negative", nifti(extension=b"\1\0\0\0" + struct.pack("<ii", -16, 6), vox_offset=360.0), f"|{EITHER}")
add("slope-nan", nifti(scl_slope=float("nan"), scl_inter=float("nan")), "")
add("affine-nan", nifti(sform_code=1, srow=(float("nan"),) * 12), "")
add("pixdim-nan", nifti(pixdim=(float("nan"),) * 8, qform_code=1), "")
add("codes-odd", nifti(qform_code=-5, sform_code=32000), "")
add("pair-without-image", nifti(magic=b"ni1\0", vox_offset=0.0), "FormatError|CorruptError|DiskError", file="x.hdr")
add("pair-magic-in-one-file", nifti(magic=b"ni1\0"), f"|{EITHER}|DiskError")
GZ = gzip.compress(nifti())
add("gzip-whole", GZ, "", file="x.nii.gz")
add("gzip-cut", GZ[:-30], f"|{EITHER}", EITHER, file="x.nii.gz", quick=True)
add("gzip-cut-in-header", GZ[:12], file="x.nii.gz")
add("gzip-crc", GZ[:-8] + bytes(4) + GZ[-4:], f"|{EITHER}", EITHER, file="x.nii.gz")
add("gzip-length", GZ[:-4] + bytes(4), f"|{EITHER}", EITHER, file="x.nii.gz")
add("gzip-garbage-after", GZ + b"garbage" * 9, f"|{EITHER}", f"|{EITHER}", file="x.nii.gz")
add("gzip-of-nothing", gzip.compress(b""), file="x.nii.gz")
add("gzip-bomb", gzip.compress(nifti(body=bytes(64 << 20)), 9), f"|{EITHER}", f"|{EITHER}", file="x.nii.gz", quick=True)
add(
    "gzip-bomb-in-extension",
    gzip.compress(nifti(vox_offset=float(64 << 20), body=bytes(64 << 20)), 9),
    f"|{EITHER}",
    f"|{EITHER}",
    file="x.nii.gz",
)
add(
    "gzip-body-missing",
    gzip.compress(nifti(dim=(3, 1024, 1024, 64, 1, 1, 1, 1))),
    f"|{EITHER}",
    EITHER,
    file="x.nii.gz",
    quick=True,
)
add("not-gzip", nifti(), f"|{EITHER}", file="x.nii.gz")
