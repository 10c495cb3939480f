"""Hostile .npy files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np

from corpus.cases import SAMPLE, SHAPES, case, outside

MAGIC = b"\x93NUMPY"


def header(text: str, version: int = 1) -> bytes:
    """A header around any text."""
    data = text.encode("latin-1")
    return MAGIC + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(data)) + data


def described(descr: str = "'<i4'", shape: str = "(8, 8)", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def add(
    name: str, data: bytes, says: str = "", error: str = "FormatError", run: str | None = None, **more: bool
) -> None:
    """A case that is one file."""

    @case(f"npy/{name}", error, run, says=says, **more)
    def _(folder: Path) -> str:
        (folder / "x.npy").write_bytes(data)
        return "x.npy"


BODY = SAMPLE.tobytes()
for _name, _shape in SHAPES.items():
    if _name not in ("null", "object", "infinity", "nan", "deep"):
        add(f"shape-{_name}", header(described(shape=f"({_shape[1:-1]})".replace("true", "True"))) + BODY)
add("shape-deep", header(described(shape="(" * 4000 + "1" + ")" * 4000)) + BODY)
add("shape-minuses", header(described(shape="(" + "-" * 8000 + "1,)")) + BODY, quick=True)
add("shape-nan", header(described(shape="(float('nan'),)")) + BODY)
add("shape-terabyte", header(described(shape="(1 << 40,)".replace("1 << 40", str(1 << 40)))) + BODY, "", "CorruptError")
add("code", header(described(shape="__import__('os').system('touch /tmp/hostile-code')")) + BODY, quick=True)
add("object", header(described("'|O'")) + BODY, quick=True)
add("structured", header(described("[('a', '<i4'), ('b', '<f4')]")) + BODY)
add("subarray", header(described("('<i4', (2,))")) + BODY)
add("type-deep", header(described("[('a', " * 500 + "'<i4'" + ")]" * 500)) + BODY)
add("item-of-2-gigabytes", header(described("'|V2147483647'", "()")) + BODY, quick=True)
add("item-of-nothing", header(described("'|V0'")) + BODY)
add("fortran-text", header(described(fortran="'yes'")) + BODY)
add("empty", b"")
add("magic-only", MAGIC)
add("version", MAGIC + b"\x09\x09" + BODY)
add("header-cut", header(described())[:30])
add("header-of-4-gigabytes", MAGIC + b"\x02\x00\xff\xff\xff\xff" + BODY, quick=True)
add("header-longer-than-file", MAGIC + b"\x01\x00\xff\x00" + b" " * 20)
add("header-zeros", MAGIC + b"\x01\x00\x76\x00" + bytes(118) + BODY)
add("short", header(described()) + BODY[:-1], "x.npy", "CorruptError")


@case("npy/pickle", "FormatError", quick=True)
def _pickle(folder: Path) -> str:
    np.save(folder / "x.npy", np.array([{"a": 1}, print], object), allow_pickle=True)
    return "x.npy"


@case("npy/pipe", "FormatError", quick=True)
def _pipe(folder: Path) -> str:
    os.mkfifo(folder / "x.npy")
    return "x.npy"


@case("npy/device", "FormatError")
def _device(folder: Path) -> str:
    (folder / "x.npy").symlink_to("/dev/zero")
    return "x.npy"


@case("npy/dangling", "DiskError")
def _dangling(folder: Path) -> str:
    (folder / "x.npy").symlink_to("nowhere")
    return "x.npy"


@case("npy/loop", "DiskError")
def _loop(folder: Path) -> str:
    (folder / "x.npy").symlink_to("y.npy")
    (folder / "y.npy").symlink_to("x.npy")
    return "x.npy"


@case("npy/named-link", "", quick=True)
def _named(folder: Path) -> str:
    """People link to their data: what they name is followed."""
    outside(folder, "real.npy", header(described()) + BODY)
    (folder / "x.npy").symlink_to("outside/real.npy")
    return "x.npy"
