"""Hostile MINC files: images, ranges and dimensions that are missing or lie."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np

from corpus.cases import case

EITHER = "FormatError|CorruptError"
FILES = Path(nibabel.__file__).parent / "tests" / "data"
IMAGE = "/minc-2.0/image/0"


def add(name: str, error: str = EITHER, run: str | None = None, **more: Any) -> Callable[[Callable[[Any], None]], None]:
    """Add a case of MINC2, a file of nibabel that a function changes."""

    def decorate(change: Callable[[Any], None]) -> None:
        @case(f"minc/{name}", error, run, **more)
        def _(folder: Path) -> str:
            shutil.copyfile(FILES / "small.mnc", folder / "x.mnc")
            with h5py.File(folder / "x.mnc", "r+") as file:
                change(file)
            return "x.mnc"

    return decorate


@add("whole", "")
def _(file: Any) -> None:
    pass


@add("no-image-min", says="image-min", quick=True)
def _(file: Any) -> None:
    del file[f"{IMAGE}/image-min"]


@add("no-image-max", says="image-max")
def _(file: Any) -> None:
    del file[f"{IMAGE}/image-max"]


@add("no-image", quick=True)
def _(file: Any) -> None:
    del file[f"{IMAGE}/image"]


@add("no-images")
def _(file: Any) -> None:
    del file["/minc-2.0/image"]


@add("no-dimension", f"|{EITHER}", quick=True)
def _(file: Any) -> None:
    del file["/minc-2.0/dimensions/yspace"]


@add("no-dimensions", f"|{EITHER}")
def _(file: Any) -> None:
    del file["/minc-2.0/dimensions"]


@add("dimension-of-other-length", "", quick=True)
def _(file: Any) -> None:
    file["/minc-2.0/dimensions/yspace"].attrs["length"] = np.int32(4711)


@add("dimension-of-negative-length", "")
def _(file: Any) -> None:
    file["/minc-2.0/dimensions/yspace"].attrs["length"] = np.int32(-28)


@add("dimension-of-text", f"|{EITHER}")
def _(file: Any) -> None:
    file["/minc-2.0/dimensions/yspace"].attrs["length"] = "many"


@add("order-of-two", quick=True)
def _(file: Any) -> None:
    file[f"{IMAGE}/image"].attrs["dimorder"] = np.bytes_("zspace,yspace")


@add("order-of-unknown")
def _(file: Any) -> None:
    file[f"{IMAGE}/image"].attrs["dimorder"] = np.bytes_("zspace,yspace,../x")


@add("order-twice")
def _(file: Any) -> None:
    file[f"{IMAGE}/image"].attrs["dimorder"] = np.bytes_("zspace,zspace,zspace")


@add("order-of-numbers", f"|{EITHER}")
def _(file: Any) -> None:
    file[f"{IMAGE}/image"].attrs["dimorder"] = np.arange(3)


@add("range-of-other-shape", quick=True)
def _(file: Any) -> None:
    del file[f"{IMAGE}/image-min"]
    file[f"{IMAGE}/image-min"] = np.zeros((3, 3))


@add("range-of-text")
def _(file: Any) -> None:
    del file[f"{IMAGE}/image-max"]
    file[f"{IMAGE}/image-max"] = "large"


@add("range-huge", f"|{EITHER}")
def _(file: Any) -> None:
    del file[f"{IMAGE}/image-max"]
    file.create_dataset(f"{IMAGE}/image-max", (1 << 40,), "f8", chunks=(1024,))


@add("valid-range-nan", f"|{EITHER}")
def _(file: Any) -> None:
    file[f"{IMAGE}/image"].attrs["valid_range"] = np.full(2, np.nan)


@add("valid-range-of-five", f"|{EITHER}")
def _(file: Any) -> None:
    file[f"{IMAGE}/image"].attrs["valid_range"] = np.arange(5.0)


@add("step-nan", f"|{EITHER}")
def _(file: Any) -> None:
    file["/minc-2.0/dimensions/yspace"].attrs["step"] = np.nan


@add("image-of-records")
def _(file: Any) -> None:
    del file[f"{IMAGE}/image"]
    file[f"{IMAGE}/image"] = np.zeros((18, 28, 29), [("a", "i2"), ("b", "i2")])


@add("image-is-a-group")
def _(file: Any) -> None:
    del file[f"{IMAGE}/image"]
    file.create_group(f"{IMAGE}/image")


@add("image-is-a-link", "FormatError|CorruptError|ExternalError", quick=True)
def _(file: Any) -> None:
    del file[f"{IMAGE}/image"]
    file[f"{IMAGE}/image"] = h5py.ExternalLink("/etc/passwd", "x")


def first(
    name: str, change: Callable[[bytes], bytes], error: str = EITHER, run: str | None = None, **more: Any
) -> None:
    """Add a case of MINC1, a file of nibabel with changed bytes."""

    @case(f"minc/1-{name}", error, run, **more)
    def _(folder: Path) -> str:
        (folder / "x.mnc").write_bytes(change((FILES / "tiny.mnc").read_bytes()))
        return "x.mnc"


first("whole", lambda data: data, "")
first("no-image-min", lambda data: data.replace(b"image-min", b"image-mix"), says="image-min", quick=True)
first("no-image", lambda data: data.replace(b"\0\0\0\5image\0", b"\0\0\0\5imagX\0"), quick=True)
first("dimension-renamed", lambda data: data.replace(b"yspace", b"qspace", 1), f"|{EITHER}")
first("cut", lambda data: data[:-1000])
first("cut-in-header", lambda data: data[:200])
