"""Own format: `.plain` files in one module, found by entry point and tested by the contract.

::

    ├─ one line of JSON, padded with spaces to 512 bytes ─┼─ elements, last axis fastest ─┤

Everything above `main` would be in a package of its own, with this in its pyproject.toml ::

    [project.entry-points."reblock.formats"]
    plain = "own_format:FORMAT"
"""

import json
import os
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import CorruptError, DiskError, FormatError, TargetExistsError, UsageError
from reblock.geometry import Grid
from reblock.model import Bytes, Codec, Extent, Index, Layout, Read, Roots, Schema
from reblock.storage.by_extent import RawByExtent
from reblock.storage.roots import FileRoots
from reblock.testing.contract import FormatContract

HEADER = 512


@dataclass(frozen=True)
class PlainStore(RawByExtent):
    """One .plain file: states where the elements are; the engine reads and writes them."""

    path: str
    schema: Schema
    roots: Roots | None = None
    format = "plain"
    fills = False

    @property
    def location(self) -> str:
        return self.path

    @property
    def layout(self) -> Layout:
        return Layout.raw(self.schema.dtype, Grid.whole(self.schema.shape))

    @property
    def described_by(self) -> list[str]:
        return [self.path]

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> list[Extent]:  # noqa: ARG002 - no index to read
        return [self.place(index) for _ in units]

    def place(self, index: Index) -> Extent:  # noqa: ARG002 - the file is the only object
        return Extent(self.path, HEADER, self.layout.nbytes)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - the file is the only object
        said = {"plain": 1, "shape": list(self.schema.shape), "dtype": self.schema.dtype.str}
        return json.dumps(said).encode().ljust(HEADER - 1) + b"\n"

    def commit(self, digest: str | None = None) -> None:  # noqa: ARG002 - no place for it
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())

    checkpoint = commit


class PlainFormat:
    """Opens and creates .plain files."""

    name = "plain"
    suffixes = (".plain",)
    checksum = ""  # no place for one

    def probe(self, path: str) -> bool:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return file.read(12).startswith(b'{"plain": 1,')

    def open(self, path: str, inner: str, allow: Sequence[str] = ()) -> PlainStore:
        if inner:
            raise UsageError(f"{path} holds one array: leave out ::{inner}")
        try:
            with open(path, "rb") as file:
                said = json.loads(file.read(HEADER))
                size = file.seek(0, os.SEEK_END)
            schema = _schema(tuple(said["shape"]), np.dtype(said["dtype"]))
            store = PlainStore(path, schema, FileRoots.of(path, allow))
        except OSError as error:
            raise DiskError.wrap(error, doing="open", path=path) from error
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{path} is not a .plain file: {error!r}") from error
        if size != HEADER + store.layout.nbytes:
            raise CorruptError(f"{path}: {size} bytes, its header promises {HEADER + store.layout.nbytes}")
        return store

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        """Keep shape and type; refuse anything else that was requested, and note anything else that came along."""
        if schema.dtype.kind not in "biufc":
            raise UsageError(f"plain holds numbers, not {schema.dtype}")
        notes = []
        for field in ("codec", "shards", "fill_value", "attributes", "axes", "order"):
            value, kept = getattr(schema, field), getattr(_schema(schema.shape, schema.dtype), field)
            if value is None or value == kept:
                continue
            if field in asked:
                raise UsageError(f"plain cannot hold {field} {value}; try zarr")
            notes.append(f"{field} {value} not kept: plain has none")
        return replace(_schema(schema.shape, schema.dtype), notes=(*schema.notes, *notes))

    def layout(self, schema: Schema) -> Layout:
        return PlainStore("", schema).layout

    def create(self, path: str, inner: str, schema: Schema) -> PlainStore:
        if inner:
            raise UsageError(f"{path} holds one array: leave out ::{inner}")
        store = PlainStore(path, schema)
        try:
            with open(path, "xb") as file:
                file.write(store.preamble(()))
                file.truncate(HEADER + store.layout.nbytes)
        except FileExistsError as error:
            raise TargetExistsError(f"{path} exists already") from error
        except OSError as error:
            raise DiskError.wrap(error, doing="create", path=path) from error
        return store

    def reopen(self, path: str, inner: str, schema: Schema) -> PlainStore:
        """Continue a file whose writer was killed: everything that was written is in its place."""
        store = self.open(path, inner)
        if (store.schema.shape, store.schema.dtype) != (schema.shape, schema.dtype):
            raise CorruptError(f"{path} is not the array that was being written")
        return store


def _schema(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Schema:
    return Schema(shape, dtype, tuple(max(n, 1) for n in shape), codec=Codec())


FORMAT = PlainFormat()


class TestPlain(FormatContract):
    """The contract: `pytest own_format.py` runs it."""

    format = FORMAT
    codecs = ("gzip:1",)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Installing the package would put its entry points where Python looks for them.
        installed = Path(folder, "plain-1.0.dist-info")
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n")
        (installed / "entry_points.txt").write_text("[reblock.formats]\nplain = own_format:FORMAT\n")
        sys.path[:0] = [folder, str(Path(__file__).parent)]

        scan = np.random.default_rng(0).normal(size=(30, 40, 50)).astype("<f4")
        np.save(f"{folder}/scan.npy", scan)
        reblock.repartition(f"{folder}/scan.npy", f"{folder}/scan.plain", memory="64KiB")
        reblock.repartition(f"{folder}/scan.plain", f"{folder}/scan.zarr", chunks=(10, 10, 50), memory="256KiB")
        assert reblock.verify(f"{folder}/scan.npy", f"{folder}/scan.zarr").equal
        print(reblock.open(f"{folder}/scan.plain")[0, 0, :3], "read back from", "scan.plain")

        # The random arrays of Hypothesis are left out, because they take longer.
        plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        options = ["-q", "--no-header", "--disable-warnings", *plugins, "-k", "not any_array"]
        code = pytest.main([*options, "-c", os.devnull, f"--rootdir={folder}", f"--basetemp={folder}/tests", __file__])
    raise SystemExit(code)


if __name__ == "__main__":
    main()
