"""The part of `reblock.testing.contract` about runs that are interrupted, records and replacement."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from reblock.engine.region import load
from reblock.engine.source_state import SourceState
from reblock.engine.view import View
from reblock.errors import StorageError, UsageError
from reblock.geometry import Box
from reblock.model.codec import Codec
from reblock.model.medium import FOLDER, Medium
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Foreseeable, Format, Replaceable, Store
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, is_folder
from reblock.testing.arrays import Array, in_byte_order, noise, same_bits
from reblock.testing.compare import same_value, snapshot
from reblock.testing.recording import RecordingMedium
from reblock.testing.reference_io import read_array, write_array


class FormatTools:
    """Tools with which the contract's tests make arrays."""

    format: ClassVar[Format | None] = None
    """The format under test."""
    inner: ClassVar[str] = ""
    """Inner path of the arrays, for formats that have inner paths."""
    medium: ClassVar[Medium] = LOCAL
    """Where the arrays are put."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        """The key of an empty folder on the medium; override it for a medium that is not that of local files."""
        return str(tmp_path)

    def make_format(self) -> Format:
        """The format under test."""
        assert self.format is not None, "set `format` in the subclass, or override `make_format`"
        return self.format

    def path(self, root: str, name: str = "array") -> str:
        """The path of a new array, with the format's usual ending."""
        return f"{root}/{name}{next(iter(self.make_format().suffixes), '')}"

    @property
    def there(self) -> dict[str, Any]:
        """The argument that names the medium; a format for local files need not have it."""
        return {} if self.medium is LOCAL else {"medium": self.medium}

    def open(self, path: str, inner: str | None = None) -> Store:
        """Open an array of the format on the medium."""
        return self.make_format().open(path, self.inner if inner is None else inner, **self.there)

    def create(self, path: str, schema: Schema) -> Store:
        """Create an array of the format on the medium."""
        return self.make_format().create(path, self.inner, schema, **self.there)

    def reopen(self, path: str, schema: Schema) -> Store:
        """Go on with an array of the format on the medium."""
        return self.make_format().reopen(path, self.inner, schema, **self.there)

    def names(self, folder: str) -> list[str]:
        """Names in a folder."""
        return [name for name, _ in self.medium.entries(folder)]

    def copy(self, folder: str, other: str) -> None:
        """Copy everything below a folder into a new one."""
        self.medium.make_folder(other)
        for name, kind in self.medium.entries(folder):
            if kind == FOLDER:
                self.copy(f"{folder}/{name}", f"{other}/{name}")
            else:
                (data,) = snapshot(self.medium, f"{folder}/{name}").values()
                self.medium.write(f"{other}/{name}", [data])

    def adapt(self, schema: Schema, asked: Collection[str] = ()) -> Schema:
        """The nearest schema that the format can hold; skips the test if the format refuses."""
        try:
            return self.make_format().adapt(schema, asked)
        except UsageError as error:
            pytest.skip(f"{self.make_format().name} cannot hold this: {error}")

    def write(self, root: str, schema: Schema, data: Array, **options: Any) -> tuple[str, Schema, Array]:
        """Make an array of an adapted schema; returns its path, the schema, and the expected elements."""
        kind, path = self.make_format(), self.path(root)
        expected = in_byte_order(data, schema.dtype)
        store = self.create(path, schema)
        assert store.layout == kind.layout(schema)
        write_array(store, expected, **options)
        store.checkpoint()
        store.commit()
        return path, schema, expected


class UnfinishedContract(FormatTools):
    """Arrays whose writer was killed can be continued."""

    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    @pytest.mark.parametrize("handed", [0, 1, 5], ids=lambda n: f"{n} objects done")
    def test_checkpointed_objects_survive(self, root: str, codec: str, handed: int) -> None:
        """A copy made during writing is what a kill would leave."""
        wanted = Schema((9, 7), np.dtype("<i4"), (4, 3), codec=Codec.parse(codec))
        schema, data = self.adapt(wanted, {"codec"}), noise((9, 7), "<i4")
        folder = f"{root}/first"
        self.medium.make_folder(folder)
        expected = in_byte_order(data, schema.dtype)
        store = self.create(self.path(folder), schema)
        objects = list(store.layout.objects.indices())
        write_array(store, expected, skip=objects[handed:])
        store.checkpoint()
        # Writes after the checkpoint may be lost, and must do no harm.
        write_array(store, expected, skip=[*objects[:handed], *objects[handed + 2 :]])
        self.copy(folder, f"{root}/second")
        store.abort()
        for place in ("first", "second"):
            path = self.path(f"{root}/{place}")
            again = self.reopen(path, schema)
            assert again.layout == store.layout
            write_array(again, expected, skip=objects[:handed])
            again.checkpoint()
            again.commit()
            assert same_bits(read_array(self.open(path)), expected)
            assert self.names(f"{root}/{place}") == [os.path.basename(path)], "files outside the array's own path"

    def test_finished_objects_can_be_read_back(self, root: str) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3)))
        expected = in_byte_order(noise((9, 7), "<i4"), schema.dtype)
        store = self.create(self.path(root), schema)
        write_array(store, expected)
        store.checkpoint()
        store.abort()
        again = self.reopen(self.path(root), schema)
        assert same_bits(read_array(again), expected)
        again.abort()

    def test_a_missing_array_cannot_be_reopened(self, root: str) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3)))
        with pytest.raises(StorageError):
            self.reopen(self.path(root), schema)
        assert self.names(root) == []

    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    def test_a_record_is_kept_and_is_no_attribute(self, root: str, codec: str) -> None:
        """The whole record is kept, or nothing if the format has no place for it."""
        wanted = Schema((9, 7), np.dtype("<i4"), (4, 3), codec=Codec.parse(codec), attributes={"a": "b"})
        schema, kind, path = self.adapt(wanted, {"codec"}), self.make_format(), self.path(root)
        expected = in_byte_order(noise((9, 7), "<i4"), schema.dtype)
        store = self.create(path, schema)
        write_array(store, expected)
        record = Record(digest="rb1-0123456789abcdef", job="1-fedcba9876543210")
        store.commit(record)
        found = self.open(path)
        assert found.schema.record in (record, NO_RECORD)
        assert same_value(found.schema.attributes, schema.attributes)
        assert same_bits(read_array(found), expected)
        # A copy does not inherit it.
        assert kind.adapt(found.schema, ()).attributes == found.schema.attributes

    def test_an_array_has_no_strangers(self, root: str) -> None:
        """A format that can list strangers allows its arrays to be replaced, but nothing beside them."""
        kind = self.make_format()
        if not isinstance(kind, Replaceable):
            pytest.skip(f"{kind.name} cannot list strangers, so nothing is ever replaced")
        path, _, _ = self.write(root, self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), noise((9, 7), "<i4"))
        assert list(kind.strangers(path, **self.there)) == []
        if is_folder(self.medium, path):
            self.medium.write(f"{path}/thesis.txt", [b"precious"])
            assert any("thesis.txt" in one for one in kind.strangers(path, **self.there))

    def test_the_new_array_is_foreseen(self, root: str) -> None:
        """A format with `foresee` names the places that `create` will use, and makes nothing."""
        kind = self.make_format()
        if not isinstance(kind, Foreseeable):
            pytest.skip(f"{kind.name} has no foresee")
        schema, path = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), f"{root}/made"
        foreseen = kind.foresee(path, self.inner, schema, **self.there)
        assert self.names(root) == []
        made = self.create(path, schema)
        if foreseen is not None:
            indices = list(made.layout.objects.indices())
            assert [foreseen.place(index) for index in indices] == [made.place(index) for index in indices]
        made.abort()

    def test_files_that_describe_an_array(self, root: str) -> None:
        path, _, _ = self.write(root, self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), noise((9, 7), "<i4"))
        named = [file for file in self.open(path).described_by if exists(self.medium, file)]
        assert named
        assert all(file == path or file.startswith(path + os.sep) for file in named)

    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    def test_files_that_hold_elements_are_checked(self, root: str, codec: str) -> None:
        """Every file that a run reads is among the files that it checks for changes."""
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3), codec=Codec.parse(codec)), {"codec"})
        path, _, expected = self.write(root, schema, noise((9, 7), "<i4"))
        store, recorder = self.open(path), RecordingMedium(self.medium)
        assert same_bits(load(View.whole(recorder.of(store)), Box.whole((9, 7))), expected)
        seen = SourceState(View.whole(store))
        assert {opening.key for opening in recorder.openings} <= set(seen.files())
        before = seen.start
        for file in set(seen.files()):
            self._touch(file)
            after = seen.again(before.newest_ns)
            assert after.firm != before.firm
            before = after

    def _touch(self, key: str) -> None:
        """Change the stamp of an object."""
        if self.medium.is_local:
            os.utime(key, ns=(0, 0))
        else:
            (data,) = snapshot(self.medium, key).values()
            self.medium.write(key, [data])
