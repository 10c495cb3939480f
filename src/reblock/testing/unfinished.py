"""The part of `reblock.testing.contract` about runs that are interrupted, records and replacement."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from reblock.engine.region import load
from reblock.engine.source_state import Seen
from reblock.engine.view import View
from reblock.errors import StorageError, UsageError
from reblock.geometry import Box
from reblock.model.codec import Codec
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Foreseeable, Format, Replaceable
from reblock.testing.arrays import Array, in_byte_order, noise, same_bits
from reblock.testing.compare import same_value
from reblock.testing.recording import RecordingMedium
from reblock.testing.reference_io import read_array, write_array


class FormatTools:
    """Tools with which the contract's tests make arrays."""

    format: ClassVar[Format | None] = None
    """The format under test."""
    inner: ClassVar[str] = ""
    """Inner path of the arrays, for formats that have inner paths."""

    def make_format(self) -> Format:
        """The format under test."""
        assert self.format is not None, "set `format` in the subclass, or override `make_format`"
        return self.format

    def path(self, root: Path, name: str = "array") -> str:
        """The path of a new array, with the format's usual ending."""
        return str(root / (name + next(iter(self.make_format().suffixes), "")))

    def adapt(self, schema: Schema, asked: Collection[str] = ()) -> Schema:
        """The nearest schema that the format can hold; skips the test if the format refuses."""
        try:
            return self.make_format().adapt(schema, asked)
        except UsageError as error:
            pytest.skip(f"{self.make_format().name} cannot hold this: {error}")

    def write(self, root: Path, schema: Schema, data: Array, **options: Any) -> tuple[str, Schema, Array]:
        """Make an array of an adapted schema; returns its path, the schema, and the expected elements."""
        kind, path = self.make_format(), self.path(root)
        expected = in_byte_order(data, schema.dtype)
        store = kind.create(path, self.inner, schema)
        assert store.layout == kind.layout(schema)
        write_array(store, expected, **options)
        store.checkpoint()
        store.commit()
        return path, schema, expected


class UnfinishedContract(FormatTools):
    """Arrays whose writer was killed can be continued."""

    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    @pytest.mark.parametrize("handed", [0, 1, 5], ids=lambda n: f"{n} objects done")
    def test_checkpointed_objects_survive(self, tmp_path: Path, codec: str, handed: int) -> None:
        """A copy made during writing is what a kill would leave."""
        wanted = Schema((9, 7), np.dtype("<i4"), (4, 3), codec=Codec.parse(codec))
        schema, data = self.adapt(wanted, {"codec"}), noise((9, 7), "<i4")
        kind, folder = self.make_format(), tmp_path / "first"
        folder.mkdir()
        expected = in_byte_order(data, schema.dtype)
        store = kind.create(self.path(folder), self.inner, schema)
        objects = list(store.layout.objects.indices())
        write_array(store, expected, skip=objects[handed:])
        store.checkpoint()
        # Writes after the checkpoint may be lost, and must do no harm.
        write_array(store, expected, skip=[*objects[:handed], *objects[handed + 2 :]])
        shutil.copytree(folder, tmp_path / "second")
        store.abort()
        for place in ("first", "second"):
            path = self.path(tmp_path / place)
            again = kind.reopen(path, self.inner, schema)
            assert again.layout == store.layout
            write_array(again, expected, skip=objects[:handed])
            again.checkpoint()
            again.commit()
            assert same_bits(read_array(kind.open(path, self.inner)), expected)
            assert os.listdir(tmp_path / place) == [os.path.basename(path)], "files outside the array's own path"

    def test_finished_objects_can_be_read_back(self, tmp_path: Path) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3)))
        kind, expected = self.make_format(), in_byte_order(noise((9, 7), "<i4"), schema.dtype)
        store = kind.create(self.path(tmp_path), self.inner, schema)
        write_array(store, expected)
        store.checkpoint()
        store.abort()
        again = kind.reopen(self.path(tmp_path), self.inner, schema)
        assert same_bits(read_array(again), expected)
        again.abort()

    def test_a_missing_array_cannot_be_reopened(self, tmp_path: Path) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3)))
        with pytest.raises(StorageError):
            self.make_format().reopen(self.path(tmp_path), self.inner, schema)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    def test_a_record_is_kept_and_is_no_attribute(self, tmp_path: Path, codec: str) -> None:
        """The whole record is kept, or nothing if the format has no place for it."""
        wanted = Schema((9, 7), np.dtype("<i4"), (4, 3), codec=Codec.parse(codec), attributes={"a": "b"})
        schema, kind, path = self.adapt(wanted, {"codec"}), self.make_format(), self.path(tmp_path)
        expected = in_byte_order(noise((9, 7), "<i4"), schema.dtype)
        store = kind.create(path, self.inner, schema)
        write_array(store, expected)
        record = Record(digest="rb1-0123456789abcdef", job="1-fedcba9876543210")
        store.commit(record)
        found = kind.open(path, self.inner)
        assert found.schema.record in (record, NO_RECORD)
        assert same_value(found.schema.attributes, schema.attributes)
        assert same_bits(read_array(found), expected)
        # A copy does not inherit it.
        assert kind.adapt(found.schema, ()).attributes == found.schema.attributes

    def test_an_array_has_no_strangers(self, tmp_path: Path) -> None:
        """A format that can list strangers allows its arrays to be replaced, but nothing beside them."""
        kind = self.make_format()
        if not isinstance(kind, Replaceable):
            pytest.skip(f"{kind.name} cannot list strangers, so nothing is ever replaced")
        path, _, _ = self.write(tmp_path, self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), noise((9, 7), "<i4"))
        assert list(kind.strangers(path)) == []
        if os.path.isdir(path):
            Path(path, "thesis.txt").write_text("precious")
            assert any("thesis.txt" in one for one in kind.strangers(path))

    def test_the_new_array_is_foreseen(self, tmp_path: Path) -> None:
        """A format with `foresee` names the places that `create` will use, and makes nothing."""
        kind = self.make_format()
        if not isinstance(kind, Foreseeable):
            pytest.skip(f"{kind.name} has no foresee")
        schema, path = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), str(tmp_path / "made")
        foreseen = kind.foresee(path, self.inner, schema)
        assert list(tmp_path.iterdir()) == []
        made = kind.create(path, self.inner, schema)
        if foreseen is not None:
            indices = list(made.layout.objects.indices())
            assert [foreseen.place(index) for index in indices] == [made.place(index) for index in indices]
        made.abort()

    def test_files_that_describe_an_array(self, tmp_path: Path) -> None:
        path, _, _ = self.write(tmp_path, self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), noise((9, 7), "<i4"))
        named = [file for file in self.make_format().open(path, self.inner).described_by if os.path.exists(file)]
        assert named
        assert all(file == path or file.startswith(path + os.sep) for file in named)

    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    def test_files_that_hold_elements_are_checked(self, tmp_path: Path, codec: str) -> None:
        """Every file that a run reads is among the files that it checks for changes."""
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3), codec=Codec.parse(codec)), {"codec"})
        path, _, expected = self.write(tmp_path, schema, noise((9, 7), "<i4"))
        store, recorder = self.make_format().open(path, self.inner), RecordingMedium()
        assert same_bits(load(View.whole(recorder.of(store)), Box.whole((9, 7))), expected)
        seen = Seen(View.whole(store))
        assert {opening.key for opening in recorder.openings} <= set(seen.files())
        before = seen.start
        for file in set(seen.files()):
            os.utime(file, ns=(0, 0))
            after = seen.again(before.newest_ns)
            assert after.firm != before.firm
            before = after
