"""Hostile folders of block files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from corpus.cases import CHUNKS, SAMPLE, SHAPES, case, outside, write

GOOD = {"reblock": 1, "shape": [8, 8], "dtype": "<i4", "chunks": [4, 4], "files": "{index}.npy", "offset": 128}


def blocks(folder: Path, **changes: Any) -> Path:
    """A block folder; what is given changes the manifest, as JSON text where it is text in brackets."""
    root = folder / "b"
    root.mkdir()
    write(root / "reblock.json", {**GOOD, **changes})
    for i in range(2):
        for j in range(2):
            np.save(root / f"{i}_{j}.npy", np.ascontiguousarray(SAMPLE[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]))
    return root


def add(
    name: str,
    error: str = "FormatError",
    run: str | None = None,
    *,
    says: str = "",
    quick: bool = False,
    **changes: Any,
) -> None:
    """A case that is a change of the manifest."""

    @case(f"blocks/{name}", error, run, says=says, quick=quick)
    def _(folder: Path) -> str:
        blocks(folder, **changes)
        return "b"


def add_text(name: str, key: str, value: str, *, quick: bool = False) -> None:
    """A case where one value of the manifest is any text."""

    @case(f"blocks/{name}", "FormatError", quick=quick)
    def _(folder: Path) -> str:
        path = blocks(folder) / "reblock.json"
        path.write_text(json.dumps({**GOOD, key: "HERE"}).replace('"HERE"', value))
        return "b"


for _name, _value in SHAPES.items():
    add_text(f"shape-{_name}", "shape", _value, quick=_name in ("deep", "digits"))
for _name, _value in CHUNKS.items():
    add_text(f"chunks-{_name}", "chunks", _value, quick=_name == "zero")
add("version", reblock=2)
add("object", dtype="|O")
add("structured", dtype=[["a", "<i4"]])
add("type-text", dtype="nonsense")
add("item-of-2-gigabytes", dtype="|V2147483647", shape=[1, 1], chunks=[1, 1], fill_value="00")
add("irregular-wrong-sum", chunks=[[3, 4], 4])
add("irregular-zero", chunks=[[0, 8], 4])
add("files-escape-above", files="../outside/{index}.npy", quick=True)
add("files-escape-root", files="/etc/{index}.npy", quick=True)
add("files-escape-backslash", files="..\\{index}.npy")
add("files-nul", files="{index}\0.npy")
add("files-no-index", files="x.npy")
add("files-number", files=3)
add("files-program", files="{index}.sh")
add("offset-negative", offset=-128)
add("offset-huge", offset=1 << 62)
add("offset-wrong", "FormatError|CorruptError", offset=64)
add("attributes-list", attributes=[1])
add("axes-wrong", axes=["a"])
add("fill-wrong", fill_value="zz")
add("order-wrong", order=[0, 0])
add("shape-other-than-blocks", "CorruptError|FormatError", shape=[80, 80], chunks=[40, 40])
add(
    "chunk-over-budget",
    "",
    "InfeasibleError|CorruptError|SpaceError",
    shape=[1 << 20, 1 << 20],
    chunks=[1 << 20, 1 << 20],
    files="{index}.bin",
    offset=0,
)


@case("blocks/manifest-terabyte", "FormatError", quick=True)
def _terabyte(folder: Path) -> str:
    os.truncate(blocks(folder) / "reblock.json", 1 << 40)
    return "b"


@case("blocks/manifest-many-values", "FormatError", quick=True)
def _values(folder: Path) -> str:
    text = json.dumps({**GOOD, "attributes": {"a": "HERE"}})
    (blocks(folder) / "reblock.json").write_text(text.replace('"HERE"', "[" + "{}," * 2_000_000 + "{}]"))
    return "b"


@case("blocks/manifest-no-json", "FormatError")
def _text(folder: Path) -> str:
    (blocks(folder) / "reblock.json").write_bytes(b"\xff\xfe{'a'")
    return "b"


@case("blocks/manifest-pipe", "FormatError", quick=True)
def _pipe(folder: Path) -> str:
    path = blocks(folder) / "reblock.json"
    path.unlink()
    os.mkfifo(path)
    return "b"


def spoil(
    name: str, spoils: Callable[[Path], None], info: str, run: str, *, says: str = "", quick: bool = False
) -> None:
    """A case where one block, the last, is spoiled."""

    @case(f"blocks/{name}", info, run, says=says, quick=quick)
    def _(folder: Path) -> str:
        spoils(blocks(folder) / "1_1.npy")
        return "b"


def _become_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _escape(path: Path) -> None:
    path.rename(outside(path.parent.parent, "secret.npy"))
    path.symlink_to("../outside/secret.npy")


def _turn_inside(path: Path) -> None:
    path.rename(path.with_name("other.npy"))
    path.symlink_to("other.npy")


spoil("block-missing", Path.unlink, "", "CorruptError", says="(1,1)", quick=True)
spoil("block-short", lambda path: os.truncate(path, 190), "", "CorruptError", says="1_1.npy")
spoil("block-long", lambda path: os.truncate(path, 200), "", "CorruptError", says="1_1.npy")
spoil("block-empty", lambda path: os.truncate(path, 0), "", "CorruptError", says="1_1.npy")
spoil("block-pipe", _become_pipe, "", "FormatError|CorruptError", quick=True)
spoil("block-folder", _become_folder, "", "FormatError|CorruptError|DiskError")
spoil("block-escape", _escape, "", "ExternalError", says="secret.npy", quick=True)
spoil("block-link-inside", _turn_inside, "", "", quick=True)


@case("blocks/first-block-escape", "ExternalError")
def _first(folder: Path) -> str:
    _escape(blocks(folder) / "0_0.npy")
    return "b"


@case("blocks/manifest-escape", "ExternalError", quick=True)
def _manifest(folder: Path) -> str:
    _escape(blocks(folder) / "reblock.json")
    return "b"


@case("blocks/allowed", "", options=("--allow-external", "FOLDER/outside"), quick=True)
def _allowed(folder: Path) -> str:
    root = blocks(folder)
    _escape(root / "1_1.npy")
    (root / "reblock.json").rename(folder / "outside" / "reblock.json")
    (root / "reblock.json").symlink_to("../outside/reblock.json")
    return "b"
