"""Files of formats that reblock cannot read, recognised by their first bytes, so that a refusal can name them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from reblock.errors import StorageError
from reblock.model.medium import Medium
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import is_file, read_head


class Stranger(NamedTuple):
    """A format that reblock cannot read."""

    name: str
    """Its name, with an article."""
    signature: bytes
    """Bytes that all such files contain."""
    advice: str
    """How to convert it for reblock; {path} is the file, {stem} its name without the ending."""
    offset: int = 0
    """Offset of the signature."""
    suffixes: tuple[str, ...] = ()
    """Endings of such files; none = any."""


_IMAGE = "`numpy.save('{stem}.npy', PIL.Image.open('{path}'))` makes a file that it can"
_FITS = "`numpy.save('{stem}.npy', astropy.io.fits.getdata('{path}'))` makes a file that it can"
_DICOM = "`numpy.save('{stem}.npy', pydicom.dcmread('{path}').pixel_array)` makes a file that it can"
_MATLAB = "`save -v7.3` in MATLAB makes one that it can (it is HDF5)"
_NPZ = "`unzip {path}` gives .npy files, which it can"
_GUNZIP = "`gunzip -k {path}` makes one to look at"

#: The first match counts; formats that differ only by ending come first.
_STRANGERS = (
    Stranger("a compressed MINC file", b"\x1f\x8b", _GUNZIP, suffixes=(".mnc.gz",)),
    Stranger("a FITS file", b"SIMPLE  =", _FITS),
    Stranger("a GRIB file", b"GRIB", "`cdo -f nc4 copy {path} {stem}.h5` makes a file that it can"),
    Stranger("a PNG image", b"\x89PNG\r\n\x1a\n", _IMAGE),
    Stranger("a JPEG image", b"\xff\xd8\xff", _IMAGE),
    Stranger("a JPEG 2000 image", b"\0\0\0\x0cjP  ", _IMAGE),
    Stranger("a DICOM file", b"DICM", _DICOM, 128),
    Stranger("an HDF4 file", b"\x0e\x03\x13\x01", "`h4toh5 {path} {stem}.h5` makes one that it can"),
    Stranger("a MATLAB file of before version 7.3", b"MATLAB 5.0 MAT-file", _MATLAB),
    Stranger("a Parquet file", b"PAR1", "it holds tables, not arrays"),
    Stranger("a NumPy .npz archive", b"PK\x03\x04", _NPZ, suffixes=(".npz",)),
    Stranger("a zip archive", b"PK\x03\x04", "`unzip {path}` makes a folder to look at"),
    Stranger("a gzip file", b"\x1f\x8b", _GUNZIP),
)
_LONGEST = max(stranger.offset + len(stranger.signature) for stranger in _STRANGERS)


def recognise(path: str, *, medium: Medium = LOCAL) -> str | None:
    """The format of a file that reblock cannot read, and advice; None if it is unknown."""
    head = b""
    if is_file(medium, path):
        with suppress(StorageError):
            head, _ = read_head(medium, path, _LONGEST)
    for stranger in _STRANGERS:
        here = head[stranger.offset : stranger.offset + len(stranger.signature)]
        if here == stranger.signature and path.lower().endswith(stranger.suffixes or ("",)):
            stem = os.path.basename(path).partition(".")[0]
            advice = stranger.advice.replace("{path}", path).replace("{stem}", stem)
            return f"{path} is {stranger.name}, which reblock cannot read yet; {advice}"
    return None
