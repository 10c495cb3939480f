"""Files of formats that reblock cannot read are named when they are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.errors import FormatError

HEADS = {
    "x.mnc.gz": (gzip.compress(b"CDF"), "a compressed MINC file", "gunzip"),
    "x.gz": (gzip.compress(b"x"), "a gzip file", "gunzip"),
    "x.fits": (b"SIMPLE  =                    T", "a FITS file", "astropy"),
    "x.grb": (b"GRIB\0\0\0\x02", "a GRIB file", "cdo"),
    "x.png": (b"\x89PNG\r\n\x1a\n", "a PNG image", "PIL"),
    "x.jpg": (b"\xff\xd8\xff\xe0", "a JPEG image", "PIL"),
    "x.dcm": (bytes(128) + b"DICM", "a DICOM file", "pydicom"),
    "x.hdf": (b"\x0e\x03\x13\x01", "an HDF4 file", "h4toh5"),
    "x.mat": (b"MATLAB 5.0 MAT-file, Platform", "a MATLAB file", "v7.3"),
    "x.parquet": (b"PAR1\x15\x04", "a Parquet file", "tables"),
    "x.zip": (b"PK\x03\x04\x14\0", "a zip archive", "unzip"),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_stranger_is_named(tmp_path: Path, name: str) -> None:
    head, kind, advice = HEADS[name]
    (tmp_path / name).write_bytes(head)
    with pytest.raises(FormatError, match="which reblock cannot read yet; ") as caught:
        reblock.open(tmp_path / name)
    assert f"{tmp_path / name} is {kind}" in str(caught.value)
    assert advice in str(caught.value)


def test_what_numpy_zips_is_told_apart(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(FormatError, match=r"is a NumPy .npz archive.*unzip"):
        reblock.open(tmp_path / "x.npz")


def test_what_is_short_or_unknown_is_not_guessed(tmp_path: Path) -> None:
    for data in (b"", b"C", b"CDF", b"CDF\x07", b"hello world"):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(FormatError, match="of unknown format"):
            reblock.open(tmp_path / "x")
