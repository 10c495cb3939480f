"""Hostile HDF5 files: other files' bytes, loops, lying metadata, chunks that do not decode."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from corpus.cases import CHUNK, SAMPLE, case, outside

NAME = "x.h5"
SECRET = SAMPLE.tobytes()


def file(folder: Path, libver: Any = None, **options: Any) -> Path:
    """A file with a dataset `x` of four chunks, a number and a text of varying length as attributes."""
    path = folder / NAME
    with h5py.File(path, "w", libver=libver) as made:
        dataset = made.create_dataset("x", data=SAMPLE, **{"chunks": CHUNK, **options})
        dataset.attrs["number"] = np.arange(3)
        dataset.attrs["text"] = "a text of varying length"
        dataset.attrs["texts"] = ["one", "two", "three"]
    return path


def patch(path: Path, old: bytes, new: bytes, shift: int = 0, number: int = 0) -> None:
    """Write bytes at a distance from the n-th place where others are found."""
    data, place = path.read_bytes(), -1
    for _ in range(number + 1):
        place = data.index(old, place + 1)
    place += shift
    path.write_bytes(data[:place] + new + data[place + len(new) :])


def add(
    name: str,
    make: Callable[[Path], object],
    info: str,
    run: str | None = None,
    *,
    inner: str = "x",
    says: str = "",
    quick: bool = False,
    options: tuple[str, ...] = (),
    slow: bool = False,
) -> None:
    """A case that is one file."""

    @case(f"hdf5/{name}", info, run, says=says, quick=quick, options=options, slow=slow)
    def _(folder: Path) -> str:
        make(folder)
        return f"{NAME}::{inner}" if inner else NAME


# ---------------------------------------------------------------- bytes of other files
def _external(folder: Path) -> None:
    secret = outside(folder, "secret.bin", SECRET)
    with h5py.File(folder / NAME, "w") as made:
        made.create_dataset("x", (8, 8), "<i4", external=[(str(secret), 0, len(SECRET))])


def _external_beside(folder: Path) -> None:
    outside(folder, "secret.bin", SECRET)
    with h5py.File(folder / NAME, "w") as made:
        made.create_dataset("x", (8, 8), "<i4", external=[("outside/secret.bin", 0, len(SECRET))])


def _external_parts(folder: Path) -> None:
    secret = outside(folder, "secret.bin", SECRET)
    with h5py.File(folder / NAME, "w") as made:
        parts = [(str(secret), 0, 128), (str(secret), 128, 128)]
        made.create_dataset("x", (8, 8), "<i4", external=parts)


def _external_short(folder: Path) -> None:
    _external(folder)
    os.truncate(folder / "outside/secret.bin", 100)


def _external_missing(folder: Path) -> None:
    _external(folder)
    (folder / "outside/secret.bin").unlink()


def _other(folder: Path) -> Path:
    (folder / "outside").mkdir()
    file(folder / "outside").rename(folder / "outside/other.h5")
    return folder / "outside/other.h5"


def _link(folder: Path) -> None:
    _other(folder)
    with h5py.File(folder / NAME, "w") as made:
        made["x"] = h5py.ExternalLink("outside/other.h5", "/x")


def _link_absolute(folder: Path) -> None:
    with h5py.File(folder / NAME, "w") as made:
        made["x"] = h5py.ExternalLink(str(_other(folder)), "/x")


def _soft(folder: Path) -> None:
    _other(folder)
    with h5py.File(folder / NAME, "w") as made:
        made["other"] = h5py.ExternalLink("outside/other.h5", "/")
        made["x"] = h5py.SoftLink("/other/x")


def _virtual(folder: Path) -> None:
    other = _other(folder)
    with h5py.File(folder / NAME, "w", libver="latest") as made:
        layout = h5py.VirtualLayout((8, 8), "<i4")
        layout[:] = h5py.VirtualSource(str(other), "x", (8, 8))
        made.create_virtual_dataset("x", layout)


def _virtual_of(path: Path, source: str, shape: tuple[int, ...] = (8, 8)) -> None:
    with h5py.File(path, "w", libver="latest") as made:
        layout = h5py.VirtualLayout(shape, "<i4")
        layout[:8, :8] = h5py.VirtualSource(source, "x", (8, 8))
        made.create_virtual_dataset("x", layout)


def _virtual_missing(folder: Path) -> None:
    _virtual(folder)
    (folder / "outside/other.h5").unlink()


def _virtual_loop(folder: Path) -> None:
    _virtual_of(folder / NAME, ".")


def _virtual_nested(folder: Path) -> None:
    (folder / "near").mkdir()
    _virtual_of(folder / "near/a.h5", str(_other(folder)))
    _virtual_of(folder / NAME, "near/a.h5")


def _virtual_link(folder: Path) -> None:
    (folder / "near").mkdir()
    with h5py.File(folder / "near/a.h5", "w") as made:
        made["x"] = h5py.ExternalLink(str(_other(folder)), "/x")
    _virtual_of(folder / NAME, "near/a.h5")


def _virtual_external(folder: Path) -> None:
    (folder / "near").mkdir()
    secret = outside(folder, "secret.bin", SECRET)
    with h5py.File(folder / "near/a.h5", "w") as made:
        made.create_dataset("x", (8, 8), "<i4", external=[(str(secret), 0, len(SECRET))])
    _virtual_of(folder / NAME, "near/a.h5")


def _virtual_billions(folder: Path) -> None:
    """Elements of a small source again and again are few bytes of metadata."""
    with h5py.File(folder / NAME, "w", libver="latest") as made:
        made["y"] = np.arange(4, dtype="<i4")
        layout = h5py.VirtualLayout((1 << 40,), "<i4")
        layout[: 1 << 39 : 1 << 37] = h5py.VirtualSource(".", "y", (4,))
        made.create_virtual_dataset("x", layout)


def _link_loop(folder: Path) -> None:
    (folder / "outside").mkdir()
    with h5py.File(folder / "outside/y.h5", "w") as made:
        made["x"] = h5py.ExternalLink("y.h5", "/x")
    with h5py.File(folder / NAME, "w") as made:
        made["x"] = h5py.ExternalLink("outside/y.h5", "/x")


ALLOW = ("--allow-external", "FOLDER/outside")
NEAR = ("--allow-external", "FOLDER/near")
add("external-escape", _external, "ExternalError", says="secret.bin", quick=True)
add("external-beside-escape", _external_beside, "ExternalError", says="--allow-external", quick=True)
add("external-allowed", _external, "", options=ALLOW, quick=True)
add("external-beside-allowed", _external_beside, "", options=ALLOW)
add("external-parts-allowed", _external_parts, "ExternalError", options=ALLOW, says="h5repack")
add("external-short-allowed", _external_short, "CorruptError", options=ALLOW)
add("external-missing-allowed", _external_missing, "DiskError", options=ALLOW)
add("link-escape", _link, "ExternalError", says="other.h5", quick=True)
add("link-absolute-escape", _link_absolute, "ExternalError", says="other.h5")
add("link-allowed", _link, "", options=ALLOW, quick=True)
add("link-absolute-allowed", _link_absolute, "", options=ALLOW)
add("link-loop-allowed", _link_loop, "FormatError", options=ALLOW)
add("soft-escape", _soft, "ExternalError", says="other.h5", quick=True)
add("soft-allowed", _soft, "", options=ALLOW)
add("virtual-escape", _virtual, "ExternalError", says="--allow-external", quick=True)
add("virtual-allowed", _virtual, "", options=ALLOW, quick=True)
add("virtual-missing-allowed", _virtual_missing, "DiskError", options=ALLOW, says="a source of the virtual dataset")
add("virtual-loop", _virtual_loop, "FormatError", says="leads back to itself")
add("virtual-nested-escape", _virtual_nested, "ExternalError", options=NEAR, says="--allow-external", quick=True)
add("virtual-link-escape", _virtual_link, "ExternalError", options=NEAR, says="--allow-external")
add("virtual-external-escape", _virtual_external, "ExternalError", options=NEAR, says="--allow-external")
add("virtual-billions", _virtual_billions, "", "SpaceError", slow=True)
add("only-link-escape", _link, "", "FormatError", says="x is a link to another file", inner="")


@case("hdf5/named-link", "", quick=True)
def _named(folder: Path) -> str:
    _other(folder)
    (folder / NAME).symlink_to("outside/other.h5")
    return NAME


# ---------------------------------------------------------------- groups and links
def _hard_loop(folder: Path) -> None:
    with h5py.File(folder / NAME, "w") as made:
        made["a/b/up"] = made.create_group("a/c")
        made["a/c/up"] = made["a"]
        made["a/b/root"] = made["/"]


def _hard_loop_found(folder: Path) -> None:
    _hard_loop(folder)
    with h5py.File(folder / NAME, "r+") as made:
        made["a/b/x"] = SAMPLE


def _soft_loop(folder: Path) -> None:
    with h5py.File(folder / NAME, "w") as made:
        made["x"] = h5py.SoftLink("/y")
        made["y"] = h5py.SoftLink("/x")


def _soft_chain(folder: Path) -> None:
    with h5py.File(folder / NAME, "w") as made:
        for number in range(3000):
            made[f"{number}"] = h5py.SoftLink(f"/{number + 1}")
        made["x"] = h5py.SoftLink("/0")


def _deep(folder: Path) -> None:
    with h5py.File(folder / NAME, "w") as made:
        group = made
        for _ in range(2000):
            group = group.create_group("g")


add("hard-link-loop", _hard_loop, "", "FormatError", inner="", quick=True)
add("hard-link-loop-found", _hard_loop_found, "", inner="", quick=True)
add("soft-link-loop", _soft_loop, "FormatError")
add("soft-link-chain", _soft_chain, "FormatError")
add("groups-deep", _deep, "FormatError", inner="")


# ---------------------------------------------------------------- types, shapes, filters
def _typed(make: Callable[[Any], object]) -> Callable[[Path], None]:
    def made(folder: Path) -> None:
        with h5py.File(folder / NAME, "w") as opened:
            make(opened)

    return made


add("type-text", _typed(lambda f: f.create_dataset("x", data=["a", "b"])), "FormatError")
add("type-ragged", _typed(lambda f: f.create_dataset("x", (3,), h5py.vlen_dtype("i4"))), "FormatError")
add("type-reference", _typed(lambda f: f.create_dataset("x", (3,), h5py.ref_dtype)), "FormatError")
add("type-compound", _typed(lambda f: f.create_dataset("x", (3,), [("a", "i4")])), "FormatError")
add("type-array", _typed(lambda f: f.create_dataset("x", (3,), np.dtype(("i4", (2,))))), "FormatError")
add(
    "item-of-1-gigabyte",
    _typed(
        lambda f: h5py.h5d.create(f.id, b"x", h5py.h5t.create(h5py.h5t.OPAQUE, 1 << 30), h5py.h5s.create_simple((1,)))
    ),
    "FormatError",
)
add("null", _typed(lambda f: f.create_dataset("x", data=h5py.Empty("f4"))), "FormatError")
add(
    "terabyte-of-nothing",
    _typed(lambda f: f.create_dataset("x", (1 << 20, 1 << 20), "u1", chunks=(64, 64), compression="gzip")),
    "",
    "SpaceError|InfeasibleError",
    quick=True,
    slow=True,
)
add(
    "chunk-over-budget",
    _typed(lambda f: f.create_dataset("x", (1 << 28,), "u1", chunks=(1 << 27,), compression="gzip")),
    "",
    "InfeasibleError",
    quick=True,
    slow=True,
)
# To say what budget would do takes the planner its time where axes are long.
add(
    "chunk-over-budget-on-a-long-axis",
    _typed(lambda f: f.create_dataset("x", (1 << 20, 1 << 12), "u1", chunks=(1 << 18, 1 << 12), compression="gzip")),
    "",
    "InfeasibleError",
    slow=True,
)


def _attributes(folder: Path) -> None:
    with h5py.File(folder / NAME, "w", libver="latest") as made:
        made["x"] = SAMPLE
        made["x"].attrs["large"] = np.zeros(8 << 20)
        made["x"].attrs["long"] = "long" * (16 << 20)


add("attributes-of-64-megabytes", _attributes, "")


def _filter(number: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        path = file(folder, compression="gzip")
        patch(path, b"\x01\x00\x08\x00\x01\x00\x01\x00deflate\0", struct.pack("<H", number))

    return make


add("filter-plugin", _filter(32001), "FormatError", says="32001", quick=True)
add("filter-zstd-of-other-bytes", _filter(32015), "", "CorruptError", quick=True)
add("filter-unknown", _filter(777), "FormatError", says="777")


# ---------------------------------------------------------------- metadata that lies
def _at(where: bytes, shift: int, new: bytes, number: int = 0, **options: Any) -> Callable[[Path], None]:
    return lambda folder: patch(file(folder, **options), where, new, shift, number)


LOST, BROKEN = "FormatError|CorruptError", "FormatError|CorruptError|"
U64 = struct.Struct("<Q").pack
for _size in (0, 1, 1 << 20, 1 << 40, 2**63, 2**64 - 1, 2**64 - 16):
    # The first object of a global heap: index, references, 4 bytes of nothing, size.
    add(f"heap-object-of-{_size}", _at(b"GCOL", 24, U64(_size)), BROKEN, quick=_size in (0, 2**64 - 16))
    add(f"heap-of-{_size}", _at(b"GCOL", 8, U64(_size)), BROKEN, quick=_size == 0)
add("heap-index", _at(b"GCOL", 16, b"\xff\xff"), BROKEN)
add("heap-version", _at(b"GCOL", 4, b"\x09"), BROKEN)
add("heap-zeros", _at(b"GCOL", 16, bytes(64)), BROKEN, quick=True)
add("heap-ones", _at(b"GCOL", 16, b"\xff" * 64), BROKEN)
for _number, _kind in ((0, "group"), (1, "index")):
    add(f"{_kind}-tree-level", _at(b"TREE", 5, b"\xff", _number), BROKEN)
    add(f"{_kind}-tree-level-1", _at(b"TREE", 5, b"\x01", _number), BROKEN)
    add(f"{_kind}-tree-entries", _at(b"TREE", 6, b"\xff\xff", _number), BROKEN, quick=True)
    add(f"{_kind}-tree-none", _at(b"TREE", 6, b"\0\0", _number), BROKEN)
    add(f"{_kind}-tree-type", _at(b"TREE", 4, b"\x07", _number), BROKEN)
    add(f"{_kind}-tree-keys", _at(b"TREE", 24, b"\xff" * 40, _number), BROKEN)
    add(f"{_kind}-tree-children", _at(b"TREE", 24, b"\xff" * 400, _number), BROKEN)
add("symbols-count", _at(b"SNOD", 6, b"\xff\xff"), LOST)
add("symbols-names", _at(b"SNOD", 8, U64(1 << 40)), LOST)
add("symbols-header", _at(b"SNOD", 16, U64(1 << 40)), LOST, quick=True)
add("names-size", _at(b"HEAP", 8, U64(1 << 40)), LOST)
add("names-free-list", _at(b"HEAP", 16, U64(8)), BROKEN)
add("names-address", _at(b"HEAP", 24, U64(1 << 50)), LOST)
add("names-heap-of-zeros", _at(b"HEAP", 0, bytes(32)), LOST)


def _tree_loop(number: int, child: int) -> Callable[[Path], None]:
    """A tree whose node is its own child."""

    def make(folder: Path) -> None:
        path = file(folder)
        data = path.read_bytes()
        place = -1
        for _ in range(number + 1):
            place = data.index(b"TREE", place + 1)
        patch(path, b"TREE", b"\x01", 5, number)
        patch(path, b"TREE", U64(place), 24 + child, number)

    return make


add("group-tree-loop", _tree_loop(0, 8), LOST, quick=True)
# A key of the chunk index: size, mask, 3 offsets.
add("index-tree-loop", _tree_loop(1, 32), "", "CorruptError", quick=True)
for _place, _name in ((8, "version"), (13, "offset-size"), (24, "base"), (40, "end"), (56, "driver"), (64, "root")):
    add(f"superblock-{_name}", lambda folder, place=_place: patch(file(folder), b"\x89HDF", b"\xff" * 4, place), BROKEN)
for _keep in (8, 96, 200, 800, 1500):
    add(f"cut-{_keep}", lambda folder, keep=_keep: os.truncate(file(folder), keep), LOST, quick=_keep == 800)
add("signature-only", lambda folder: (folder / NAME).write_bytes(b"\x89HDF\r\n\x1a\n"), LOST)
add("signature-late", lambda folder: (folder / NAME).write_bytes(bytes(1 << 20) + b"\x89HDF\r\n\x1a\n"), LOST)
add(
    "signature-in-a-terabyte",
    lambda folder: ((folder / NAME).touch(), os.truncate(folder / NAME, 1 << 40)),
    "FormatError",
)


def _continued(folder: Path) -> None:
    """An object header whose continuation is the header itself."""
    path = file(folder)
    with h5py.File(path, "r+") as made:
        for number in range(30):
            made["x"].attrs[f"more{number}"] = number
    data = path.read_bytes()
    # Type 16, size 16, flags, 3 bytes of nothing, address, length.
    places = [n for n in range(0, len(data) - 24, 8) if data[n : n + 4] == b"\x10\x00\x10\x00"]
    for place in places:
        data = data[: place + 8] + U64(place) + data[place + 16 :]
    path.write_bytes(data)


add("header-loop", _continued, LOST, quick=True)


# ---------------------------------------------------------------- chunks
def _chunk(data: bytes, **options: Any) -> Callable[[Path], None]:
    """A file whose last chunk is stored as given."""

    def make(folder: Path) -> None:
        with h5py.File(file(folder, **options), "r+") as made:
            made["x"].id.write_direct_chunk((4, 4), data)

    return make


BOMB = zlib.compress(bytes(64 << 20))
RAW = SAMPLE[4:, 4:].tobytes()
add("gzip-bomb", _chunk(BOMB, compression="gzip"), "", "CorruptError", says="(1,1)", quick=True)
add("gzip-cut", _chunk(zlib.compress(RAW)[:-3], compression="gzip"), "", "CorruptError", says="(1,1)")
add("gzip-long", _chunk(zlib.compress(RAW + b"1"), compression="gzip"), "", "CorruptError", says="(1,1)")
add("gzip-short", _chunk(zlib.compress(RAW[1:]), compression="gzip"), "", "CorruptError", says="(1,1)")
add("gzip-zeros", _chunk(bytes(40), compression="gzip"), "", "CorruptError", says="(1,1)", quick=True)
add("shuffle-short", _chunk(RAW[1:], shuffle=True), "", "CorruptError", says="(1,1)")
add("fletcher32-wrong", _chunk(RAW + b"1234", fletcher32=True), "", "CorruptError", says="checksum", quick=True)
add("fletcher32-short", _chunk(b"12", fletcher32=True), "", "CorruptError", says="(1,1)")
add("lzf-ones", _chunk(b"\xff" * 40, compression="lzf"), "", "CorruptError", says="(1,1)", quick=True)
add("lzf-zeros", _chunk(bytes(40), compression="lzf"), "", "CorruptError|")
add("szip-ones", _chunk(b"\xff" * 40, compression="szip"), "", "CorruptError|")
add("szip-says-4-gigabytes", _chunk(b"\xff\xff\xff\x7f" + bytes(40), compression="szip"), "", "CorruptError|")
add("scaleoffset-ones", _chunk(b"\xff" * 40, scaleoffset=0), "", "CorruptError|")
add("scaleoffset-zeros", _chunk(bytes(40), scaleoffset=0), "", "CorruptError|")


def _size(size: int, mask: int = 0, **options: Any) -> Callable[[Path], None]:
    """The first chunk's size in the index is a lie."""
    return lambda folder: patch(file(folder, **options), b"TREE", struct.pack("<II", size, mask), 24, 1)


for _bytes in (0, 1, 63, 65, 1 << 20, 0xFFFFFFFF):
    add(f"chunk-size-{_bytes}", _size(_bytes), "", "CorruptError|", quick=_bytes == 0xFFFFFFFF)
    add(f"gzip-chunk-size-{_bytes}", _size(_bytes, compression="gzip"), "", "CorruptError|")
add("chunk-mask", _size(64, 0xFFFFFFFF, compression="gzip"), "", "CorruptError|")
for _address in (0, 1 << 40, 2**63, 2**64 - 2):
    add(
        f"chunk-address-{_address}",
        _at(b"TREE", 24 + 32, U64(_address), 1),
        "",
        "CorruptError|",
        quick=_address == 1 << 40,
    )
