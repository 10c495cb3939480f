"""Hostile zarr arrays: metadata, keys and links."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpus.cases import CHUNK, CHUNKS, SAMPLE, SHAPES, case, nest, outside, write

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
GOOD3 = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [8, 8],
    "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [BYTES],
    "attributes": {},
}
GOOD2 = {
    "zarr_format": 2,
    "shape": [8, 8],
    "chunks": [4, 4],
    "dtype": "<i4",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
}
Encode = Callable[[bytes], bytes]


def chunk(i: int, j: int) -> bytes:
    return SAMPLE[CHUNK[0] * i : CHUNK[0] * (i + 1), CHUNK[1] * j : CHUNK[1] * (j + 1)].tobytes()


def array(folder: Path, version: int, encode: Encode = bytes, name: str = "x.zarr", **changes: Any) -> Path:
    """An array of a version, and its last chunk."""
    root = folder / name
    good = GOOD3 if version == 3 else GOOD2
    write(root / ("zarr.json" if version == 3 else ".zarray"), {**good, **changes})
    for i in range(2):
        for j in range(2):
            write(root / (f"c/{i}/{j}" if version == 3 else f"{i}.{j}"), encode(chunk(i, j)))
    return root / ("c/1/1" if version == 3 else "1.1")


def add(
    version: int,
    name: str,
    error: str = "FormatError",
    run: str | None = None,
    *,
    quick: bool = False,
    says: str = "",
    slow: bool = False,
    **changes: Any,
) -> None:
    """A case that is a change of the metadata."""

    @case(f"zarr{version}/{name}", error, run, quick=quick, says=says, slow=slow)
    def _(folder: Path) -> str:
        array(folder, version, **changes)
        return "x.zarr"


def add_text(version: int, name: str, value: str, *keys: str, quick: bool = False) -> None:
    """A case where one value of the metadata is any text."""

    @case(f"zarr{version}/{name}", "FormatError", quick=quick)
    def _(folder: Path) -> str:
        array(folder, version)
        document: Any = json.loads(json.dumps(GOOD3 if version == 3 else GOOD2))
        inner = document
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = "HERE"
        write(
            folder / "x.zarr" / ("zarr.json" if version == 3 else ".zarray"),
            json.dumps(document).replace('"HERE"', value),
        )
        return "x.zarr"


for _version, _chunks in ((2, ("chunks",)), (3, ("chunk_grid", "configuration", "chunk_shape"))):
    for _name, _value in SHAPES.items():
        add_text(_version, f"shape-{_name}", _value, "shape", quick=_name in ("deep", "digits", "rank-65"))
    for _name, _value in CHUNKS.items():
        add_text(_version, f"chunks-{_name}", _value, *_chunks, quick=_name in ("zero", "huge"))
    for _name, _value in {
        "text": '"a"',
        "list": "[1, 2, 3]",
        "deep": nest(60),
        "digits": "9" * 300,
        "object": "{}",
    }.items():
        add_text(_version, f"fill-{_name}", _value, "fill_value")
    _name = "terabyte-of-nothing"
    add(_version, _name, "", "SpaceError", quick=_version == 3, shape=[1 << 20, 1 << 20], slow=True)
    add(_version, "chunks-without-end", "", "SpaceError", shape=[1 << 57, 8], slow=True)

add(2, "object", dtype="|O", quick=True)
add(2, "structured", dtype=[["a", "<i4"]])
add(2, "item-of-2-gigabytes", dtype="|V2147483647", shape=[1, 1], chunks=[1, 1], quick=True)
add(2, "extended", dtype="<f16")
add(2, "format", zarr_format=7)
add(2, "order", order="A")
add(2, "separator-escape", dimension_separator="/../../outside/", quick=True)
add(2, "compressor-text", compressor="zlib")
add(2, "filters-text", filters="delta")
for _codec in (
    "pickle",
    "json2",
    "msgpack2",
    "vlen-utf8",
    "vlen-bytes",
    "categorize",
    "nonsense",
    "zfpy",
    "n5_wrapper",
):
    add(2, f"codec-{_codec}", filters=[{"id": _codec}], quick=_codec == "pickle")
add(2, "codec-setting", compressor={"id": "zlib", "level": "9; import os"})
add(2, "codec-type", filters=[{"id": "delta", "dtype": "|O"}])
add(2, "codec-chain", compressor={"id": "zlib", "level": 1}, filters=[{"id": "zlib"}, {"id": "delta", "dtype": "<i4"}])

add(3, "type-text", data_type="string")
add(3, "type-object", data_type={"name": "variable_length_utf8"})
add(
    3,
    "item-of-256-megabytes",
    data_type="r2147483640",
    shape=[1, 1],
    chunk_grid={"name": "regular", "configuration": {"chunk_shape": [1, 1]}},
    fill_value=[0],
    codecs=[{"name": "bytes"}],
)
add(
    3,
    "separator-escape",
    chunk_key_encoding={"name": "default", "configuration": {"separator": "/../../../outside/"}},
    quick=True,
)
add(3, "keys-unknown", chunk_key_encoding={"name": "hilbert"})
add(3, "grid-unknown", chunk_grid={"name": "rectilinear", "configuration": {}})
add(3, "codecs-none", codecs=[])
add(3, "codecs-text", codecs="bytes")
add(3, "codec-unknown", codecs=[BYTES, {"name": "https://example.org/run"}], quick=True)
add(3, "codec-pickle", codecs=[{"name": "numcodecs.pickle"}, BYTES], quick=True)
add(3, "codec-many", codecs=[BYTES, *[{"name": "crc32c"}] * 100_000])
add(3, "storage-transformers", storage_transformers=[{"name": "x"}])
add(3, "must-understand", surprise={"name": "x"})
add(3, "names-wrong", dimension_names=["a"])
add(3, "attributes-list", attributes=[1])
add(3, "node-type", node_type="arrays")


@case("zarr3/metadata-many-values", "FormatError", quick=True)
def _values(folder: Path) -> str:
    array(folder, 3)
    text = json.dumps({**GOOD3, "attributes": {"a": "HERE"}})
    write(folder / "x.zarr/zarr.json", text.replace('"HERE"', "[" + "{}," * 2_000_000 + "{}]"))
    return "x.zarr"


# ---------------------------------------------------------------- what is in the place of a file
def replaced(
    version: int, name: str, change: Callable[[Path], None], info: str, run: str, *, quick: bool = False, says: str = ""
) -> None:
    """A case where the last chunk is something else."""

    @case(f"zarr{version}/{name}", info, run, quick=quick, says=says)
    def _(folder: Path) -> str:
        change(array(folder, version))
        return "x.zarr"


def escape(path: Path, name: str = "secret") -> None:
    """Move a file or folder outside, and leave a link."""
    target = path
    while target.suffix != ".zarr":
        target = target.parent
    where = outside(target.parent, name)
    where.unlink()
    path.rename(where)
    path.symlink_to(where)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _inside(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


for _version in (2, 3):
    replaced(_version, "chunk-escape", escape, "", "ExternalError", quick=True, says="secret")
    replaced(_version, "chunk-device-escape", _device, "", "ExternalError", says="/dev/zero")
    replaced(_version, "chunk-link-inside", _inside, "", "", quick=True)
    replaced(_version, "chunk-pipe", _pipe, "", "CorruptError|FormatError|DiskError", quick=True)
    replaced(_version, "chunk-folder", _folder, "", "CorruptError|FormatError|DiskError")
    replaced(_version, "chunk-loop", _loop, "", "DiskError|ExternalError")
    replaced(_version, "chunk-short", lambda path: os.truncate(path, 63), "", "CorruptError", says="(1,1)", quick=True)
    replaced(_version, "chunk-long", lambda path: os.truncate(path, 65), "", "CorruptError", says="(1,1)")
    replaced(_version, "chunk-empty", lambda path: os.truncate(path, 0), "", "CorruptError", says="(1,1)")
    replaced(_version, "chunk-terabyte", lambda path: os.truncate(path, 1 << 40), "", "CorruptError", says="(1,1)")

    @case(f"zarr{_version}/metadata-escape", "ExternalError", quick=True)
    def _metadata(folder: Path, version: int = _version) -> str:
        array(folder, version)
        escape(folder / "x.zarr" / ("zarr.json" if version == 3 else ".zarray"))
        return "x.zarr"

    @case(f"zarr{_version}/metadata-pipe", "FormatError")
    def _metadata_pipe(folder: Path, version: int = _version) -> str:
        array(folder, version)
        write(folder / "x.zarr" / ".zgroup", {"zarr_format": 2})
        _pipe(folder / "x.zarr" / ("zarr.json" if version == 3 else ".zarray"))
        return "x.zarr"

    @case(f"zarr{_version}/inner-escape", "ExternalError", quick=True)
    def _inner(folder: Path, version: int = _version) -> str:
        array(folder, version, name="outside/other.zarr")
        write(folder / "x.zarr/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
        (folder / "x.zarr/a").symlink_to("../outside/other.zarr")
        return "x.zarr::a"

    @case(f"zarr{_version}/inner-dots-escape", "UsageError", quick=True)
    def _dots(folder: Path, version: int = _version) -> str:
        array(folder, version)
        array(folder, version, name="outside/other.zarr")
        return "x.zarr::../outside/other.zarr"

    @case(f"zarr{_version}/named-link", "", quick=True)
    def _named(folder: Path, version: int = _version) -> str:
        array(folder, version, name="outside/real.zarr")
        (folder / "x.zarr").symlink_to("outside/real.zarr")
        return "x.zarr"

    @case(f"zarr{_version}/allowed", "", quick=True, options=("--allow-external", "FOLDER/outside"))
    def _allowed(folder: Path, version: int = _version) -> str:
        escape(array(folder, version))
        escape(folder / "x.zarr" / ("zarr.json" if version == 3 else ".zarray"), "metadata")
        return "x.zarr"

    @case(
        f"zarr{_version}/allowed-elsewhere-escape", "", "ExternalError", options=("--allow-external", "FOLDER/x.zarr")
    )
    def _elsewhere(folder: Path, version: int = _version) -> str:
        escape(array(folder, version))
        return "x.zarr"


@case("zarr3/chunk-folder-escape", "", "ExternalError", quick=True, says="secret")
def _parent(folder: Path) -> str:
    escape(array(folder, 3).parent)
    return "x.zarr"


@case("zarr3/chunk-folders-escape", "", "ExternalError")
def _grandparent(folder: Path) -> str:
    escape(array(folder, 3).parent.parent)
    return "x.zarr"


@case("zarr2/attributes-escape", "ExternalError")
def _attributes(folder: Path) -> str:
    array(folder, 2)
    write(folder / "x.zarr/.zattrs", {"secret": 1})
    escape(folder / "x.zarr/.zattrs")
    return "x.zarr"


@case("zarr3/group-of-links-escape", "", "FormatError", says="there is no array in it")
def _group(folder: Path) -> str:
    """A search for arrays does not follow links."""
    array(folder, 3, name="outside/other.zarr")
    write(folder / "x.zarr/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    (folder / "x.zarr/a").symlink_to("../outside")
    (folder / "x.zarr/b").symlink_to(".")
    return "x.zarr"


@case("zarr3/group-of-long-documents", "", "UsageError", slow=True)
def _documents(folder: Path) -> str:
    """A group of groups whose attributes are long: all of them belong to the dataset."""
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    write(folder / "x.zarr/zarr.json", group)
    write(folder / "x.zarr/0/zarr.json", {**group, "attributes": {"a": [{}] * 400_000}})
    for number in range(1, 300):
        (folder / f"x.zarr/{number}").mkdir()
        os.link(folder / "x.zarr/0/zarr.json", folder / f"x.zarr/{number}/zarr.json")
    return "x.zarr"
