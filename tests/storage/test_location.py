"""Where arrays are, as people write it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import UsageError
from reblock.storage.location import Location


@pytest.mark.parametrize(
    ("text", "path", "inner"),
    [
        ("x.npy", "x.npy", ""),
        ("vol.h5::/scan/data", "vol.h5", "scan/data"),
        ("vol.h5::scan/data", "vol.h5", "scan/data"),
        ("vol.h5::/", "vol.h5", ""),
        ("vol.h5::", "vol.h5", ""),
        ("vol.h5:://scan//./data/", "vol.h5", "scan/data"),
        ("s3://bucket/era5.zarr::t2m", "s3://bucket/era5.zarr", "t2m"),
        ("blocks/", "blocks/", ""),
        ("odd:name", "odd:name", ""),
        ("a.h5::..data", "a.h5", "..data"),
    ],
)
def test_parse(text: str, path: str, inner: str) -> None:
    location = Location.parse(text)
    assert (location.path, location.inner) == (path, inner)
    assert Location.parse(str(location)) == location


def test_paths_are_text_too() -> None:
    assert Location.parse(Path("a") / "b.npy") == Location("a/b.npy")


@pytest.mark.parametrize("text", ["", "::x", "a.h5::../x", "a.h5::/x/../../y", "a\0b", "a.h5::b\0"])
def test_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Location.parse(text)


def test_folders_are_told_apart() -> None:
    assert Location.parse("blocks/").is_folder
    assert not Location.parse("blocks").is_folder


@given(st.text(), st.text())
def test_text_round_trips(path: str, inner: str) -> None:
    try:
        location = Location.parse(f"{path}::{inner}")
    except UsageError:
        return
    assert Location.parse(str(location)) == location
    assert not location.inner.startswith("/")
    assert not location.inner.endswith("/")
