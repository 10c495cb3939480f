"""The contract of formats that hold several arrays: one test suite for every TreeFormat.

::

    from reblock.testing.trees import TreeContract
    from my_package.my_format import FORMAT


    class TestMyFormat(TreeContract):
        format = FORMAT
"""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from reblock.errors import FormatError, ReblockError, StorageError, TargetExistsError, UsageError
from reblock.model.codec import Codec
from reblock.model.dataset import GroupSchema, TableSchema, Tree, TreeFormat, TreeStore
from reblock.model.medium import FOLDER, Medium
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import is_folder
from reblock.testing.arrays import DTYPES, Array, in_byte_order, noise, same_bits
from reblock.testing.compare import fields, same_value, snapshot
from reblock.testing.reference_io import read_array, write_array
from reblock.testing.sample_trees import NAMES, TABLES, TYPED, small_tree


class TreeContract:
    """Subclass with a name that pytest collects, and set `format`."""

    format: ClassVar[TreeFormat | None] = None
    """The format under test."""
    medium: ClassVar[Medium] = LOCAL
    """Where the datasets are put."""
    names: ClassVar[tuple[str, ...]] = NAMES
    """Names that the format can hold."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        """The key of an empty folder on the medium."""
        return str(tmp_path)

    # ---------------------------------------------------------------- tools
    @property
    def kind(self) -> TreeFormat:
        """The format under test."""
        assert self.format is not None, "set `format` in the subclass"
        return self.format

    @property
    def there(self) -> dict[str, Any]:
        """The argument that names the medium."""
        return {} if self.medium is LOCAL else {"medium": self.medium}

    def path(self, root: str, name: str = "all") -> str:
        """The path of a new dataset."""
        return f"{root}/{name}{next(iter(self.kind.suffixes), '')}"

    def open(self, path: str, inner: str = "") -> TreeStore:
        """Open a dataset."""
        return self.kind.open_tree(path, inner, **self.there)

    def adapt(self, tree: Tree) -> Tree:
        """The nearest tree that the format can hold; skips the test if the format refuses an array."""
        adapted = self.kind.adapt_tree(tree, ())
        if refused := [f"{name}: {table.why}" for name, table in adapted.tables.items() if table.why]:
            pytest.skip(f"{self.kind.name} cannot hold this: {refused[0]}")
        return adapted

    def write_arrays(self, path: str, tree: Tree, elements: dict[str, Array], inner: str = "") -> dict[str, Record]:
        """Write all arrays of a dataset that `create_tree` has made; returns their records."""
        records = {}
        for number, (name, schema) in enumerate(tree.arrays.items()):
            store = self.kind.reopen(path, f"{inner}/{name}".lstrip("/"), schema, **self.there)
            assert store.layout == self.kind.layout(schema)
            write_array(store, elements[name])
            store.checkpoint()
            records[name] = Record(digest=f"rb1-{number:016x}", job="1-ab")
            store.commit(records[name])
        return records

    def write(self, root: str, tree: Tree, inner: str = "", record: Record = NO_RECORD) -> tuple[str, dict[str, Array]]:
        """Make a dataset of an adapted tree; returns its path and the elements."""
        path = self.path(root)
        elements = {name: in_byte_order(noise(one.shape, one.dtype), one.dtype) for name, one in tree.arrays.items()}
        self.kind.create_tree(path, inner, tree, **self.there)
        records = self.write_arrays(path, tree, elements, inner)
        self.kind.commit_tree(path, inner, tree, records, record, **self.there)
        return path, elements

    def check(self, found: TreeStore, tree: Tree, elements: dict[str, Array]) -> None:
        """Assert that a dataset is what was written."""
        assert list(found.tree.groups) == list(dict.fromkeys(found.tree.groups))
        assert set(found.tree.groups) == set(tree.groups), "adapt_tree adds groups that are not named"
        for name, group in tree.groups.items():
            assert same_value(found.tree.groups[name].attributes, group.attributes), name
            assert same_types(found.tree.groups[name].attributes, group.attributes), name
        assert set(found.tree.arrays) == set(tree.arrays)
        for name, schema in tree.arrays.items():
            assert same_value(fields(found.tree.arrays[name]), fields(schema)), name
            store = found.array(name)
            assert same_value(fields(store.schema), fields(schema)), name
            assert same_bits(read_array(store), elements[name]), name
            store.abort()

    def round_trip(self, root: str, tree: Tree, inner: str = "") -> TreeStore:
        """Write and reopen a dataset, and compare everything."""
        adapted = self.adapt(tree)
        path, elements = self.write(root, adapted, inner)
        found = self.open(path, inner)
        self.check(found, adapted, elements)
        return found

    # ---------------------------------------------------------------- what is kept
    def test_it_is_a_tree_format(self, root: str) -> None:
        assert isinstance(self.kind, TreeFormat)
        found = self.round_trip(root, small_tree())
        assert isinstance(found, TreeStore)
        assert found.format == self.kind.name
        assert found.location.startswith(self.path(root))
        assert found.medium is self.medium
        assert found.described_by
        assert all(name == self.path(root) or name.startswith(self.path(root) + "/") for name in found.described_by)
        assert [name for name, _ in self.medium.entries(root)] == [os.path.basename(self.path(root))]

    def test_order_and_parents(self, root: str) -> None:
        found = self.round_trip(root, small_tree()).tree
        for name in found.groups:
            above = name.rpartition("/")[0]
            assert list(found.groups).index(above) <= list(found.groups).index(name)
        assert found.groups.keys() >= {"", "deep", "deep/er", "deep/er/none"}

    def test_dimensions(self, root: str) -> None:
        found = self.round_trip(root, small_tree()).tree
        assert {name: one.length for name, one in found.groups[""].dimensions.items()} == {"time": 6, "x": 4}
        assert {name: one.length for name, one in found.groups["deep/er"].dimensions.items()} == {"y": 5}
        assert not found.groups["deep"].dimensions

    @pytest.mark.parametrize("inner", ["inside", "in/side"])
    def test_a_group_inside(self, root: str, inner: str) -> None:
        self.round_trip(root, small_tree(), inner)
        whole = self.open(self.path(root))
        assert f"{inner}/deep/er/t2m" in whole.tree.arrays

    @pytest.mark.parametrize("group", ["deep", "deep/er"])
    def test_one_of_the_groups(self, root: str, group: str) -> None:
        adapted = self.adapt(small_tree())
        path, elements = self.write(root, adapted)
        found = self.open(path, group)
        inside = {name.removeprefix(f"{group}/") for name in adapted.arrays if name.startswith(f"{group}/")}
        assert set(found.tree.arrays) == inside
        for name in inside:
            assert same_bits(read_array(found.array(name)), elements[f"{group}/{name}"])

    def test_every_type(self, root: str) -> None:
        arrays = {f"v{n}": Schema((5, 3), np.dtype(dtype), (2, 3)) for n, dtype in enumerate(DTYPES)}
        adapted = self.kind.adapt_tree(Tree(arrays=arrays), ())
        assert {*adapted.arrays, *adapted.tables} == set(arrays)
        assert all(table.why for table in adapted.tables.values())
        path, elements = self.write(root, adapted)
        self.check(self.open(path), replace(adapted, tables={}), elements)

    def test_every_shape(self, root: str) -> None:
        shapes: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (4, 0, 3), (0, 0), (3, 4, 5, 6))
        arrays = {
            f"v{n} {codec}": Schema(
                shape, np.dtype("<i2"), tuple(max(s // 2, 1) for s in shape), codec=Codec.parse(codec)
            )
            for n, shape in enumerate(shapes)
            for codec in ("none", "gzip:1")
        }
        self.round_trip(root, Tree(arrays=arrays))

    def test_names(self, root: str) -> None:
        arrays = {name: Schema((2,), np.dtype("<i4"), (2,)) for name in self.names}
        groups = {f"g {name}": GroupSchema({"name": name}) for name in self.names}
        inside = {f"g {name}/{name}": Schema((3,), np.dtype("<i4"), (2,)) for name in self.names}
        self.round_trip(root, Tree({"": GroupSchema(), **groups}, {**arrays, **inside}))

    @pytest.mark.parametrize("name", ["", "..", "a/../b", "a//b", "x\0y", "\udc80", "n" * 300])
    def test_names_that_nothing_can_hold(self, name: str) -> None:
        schema = Schema((2,), np.dtype("<i4"), (2,))
        with pytest.raises(UsageError):
            self.kind.adapt_tree(Tree(arrays={name: schema}), ())

    def test_a_name_is_an_array_or_a_group(self) -> None:
        schema = Schema((2,), np.dtype("<i4"), (2,))
        with pytest.raises(UsageError, match="inside"):
            self.kind.adapt_tree(Tree(arrays={"a": schema, "a/b": schema}), ())
        with pytest.raises(UsageError, match="both"):
            self.kind.adapt_tree(Tree({"": GroupSchema(), "a": GroupSchema()}, {"a": schema}), ())

    def test_attributes_of_every_type(self, root: str) -> None:
        """On the top, a group and an array; with their types."""
        tree = Tree(
            {"": GroupSchema(TYPED), "g": GroupSchema(TYPED)},
            {"a": Schema((3,), np.dtype("<f4"), (3,), attributes=TYPED)},
        )
        adapted = self.adapt(tree)
        for given in (adapted.groups[""], adapted.groups["g"], adapted.arrays["a"]):
            assert given.attributes.keys() == TYPED.keys()
        found = self.round_trip(root, tree)
        assert same_types(found.array("a").schema.attributes, adapted.arrays["a"].attributes)

    def test_an_empty_dataset(self, root: str) -> None:
        found = self.round_trip(root, Tree())
        assert not found.tree.arrays
        assert list(found.tree.groups) == [""]

    def test_it_survives_pickling(self, root: str) -> None:
        adapted = self.adapt(small_tree())
        path, elements = self.write(root, adapted)
        copy = pickle.loads(pickle.dumps(self.open(path)))  # noqa: S301 - our own bytes
        self.check(copy, adapted, elements)

    # ---------------------------------------------------------------- tables
    @pytest.mark.parametrize("name", list(TABLES))
    def test_tables(self, root: str, name: str) -> None:
        """Elements that cannot be cut are copied in blocks of rows, which may be written again."""
        values, kind, details = TABLES[name]
        dtype = np.dtype("O") if kind in ("text", "bytes") else values.dtype
        given = TableSchema(values.shape, dtype, kind, details, attributes={"units": "words"})
        arrays = {"a": Schema((3,), np.dtype("<i4"), (2,))}
        tree = self.kind.adapt_tree(Tree(arrays=arrays, tables={"t": given}), ())
        if tree.tables["t"].why:
            pytest.skip(f"{self.kind.name} cannot hold this: {tree.tables['t'].why}")
        path = self.path(root)
        self.kind.create_tree(path, "", tree, **self.there)
        self.write_arrays(path, tree, {"a": noise((3,), "<i4")})
        for start in range(0, len(values), 7) if values.shape else (0,):
            rows = values[start : start + 7] if values.shape else values
            for _ in range(2 if start in (0, 7) else 1):
                self.kind.write_rows(path, "", "t", tree, start, rows, **self.there)
        record = Record(digest="rb2-00112233445566778899aabbccddeeff")
        for _ in range(2):
            self.kind.commit_tree(path, "", tree, {"t": record}, **self.there)
        found = pickle.loads(pickle.dumps(self.open(path)))  # noqa: S301 - our own bytes
        table = found.tree.tables["t"]
        assert (table.shape, table.kind, table.why) == (values.shape, kind, "")
        text = {k: v.decode() if isinstance(v, bytes) else v for k, v in table.attributes.items()}
        assert same_value(text, given.attributes) or same_value(table.attributes, given.attributes)
        assert kind != "enum" or table.details["names"] == details["names"]
        assert list(self.kind.tree_strangers(path, found.tree, **self.there)) == []
        self.check_rows(found, "t", values)

    def check_rows(self, found: TreeStore, name: str, values: Array) -> None:
        """Assert that a table holds values, read in blocks within a limit."""
        if not values.shape:
            assert found.rows(name, 0, 1, 1 << 20)[()] == values[()]
            return
        parts, at = [], 0
        while at < len(values):
            parts.append(found.rows(name, at, len(values), 1 << 22))
            assert parts[-1].shape[1:] == values.shape[1:]
            at += len(parts[-1])
        whole = np.concatenate(parts) if parts else values
        if values.dtype.names:
            assert all(np.array_equal(whole[field], values[field]) for field in values.dtype.names)
        else:
            assert whole.tolist() == values.tolist()
        assert found.rows(name, 3, 5, 1 << 22).tolist() == whole[3:5].tolist()

    # ---------------------------------------------------------------- interrupted runs
    def test_records(self, root: str) -> None:
        record = Record(digest="rb1-00112233445566778899", job="2-whole")
        adapted = self.adapt(small_tree())
        path, _ = self.write(root, adapted, record=record)
        found = self.open(path)
        assert found.record in (record, NO_RECORD)
        kept = {found.array(name).schema.record.digest for name in adapted.arrays}
        assert kept == {None} or len(kept) == len(adapted.arrays)
        for name in adapted.arrays:
            assert same_value(found.array(name).schema.attributes, adapted.arrays[name].attributes)

    def test_a_target_that_exists_is_refused(self, root: str) -> None:
        adapted = self.adapt(small_tree())
        path, _ = self.write(root, adapted)
        before = snapshot(self.medium, path)
        with pytest.raises(TargetExistsError):
            self.kind.create_tree(path, "", adapted, **self.there)
        assert snapshot(self.medium, path) == before

    def test_every_array_can_be_continued(self, root: str) -> None:
        """A copy of the dataset at any moment is what a kill leaves; every array goes on from its last checkpoint."""
        adapted = self.adapt(small_tree())
        elements = {name: noise(one.shape, one.dtype) for name, one in adapted.arrays.items()}
        self.medium.make_folder(f"{root}/0")
        self.kind.create_tree(self.path(f"{root}/0"), "", adapted, **self.there)
        for number, (name, schema) in enumerate(adapted.arrays.items()):
            here, there = (f"{root}/{n}" for n in (number, number + 1))
            store = self.kind.reopen(self.path(here), name, schema, **self.there)
            objects = list(store.layout.objects.indices())
            half = len(objects) // 2
            write_array(store, elements[name], skip=objects[half:])
            store.checkpoint()
            write_array(store, elements[name], skip=[*objects[:half], *objects[half + 1 :]])
            self.copy(here, there)
            store.abort()
            again = self.kind.reopen(self.path(there), name, schema, **self.there)
            write_array(again, elements[name], skip=objects[:half])
            again.checkpoint()
            again.commit(Record(digest=f"rb1-{number:016x}"))
        path = self.path(f"{root}/{len(adapted.arrays)}")
        for _ in range(2):
            self.kind.commit_tree(path, "", adapted, {}, **self.there)
            self.check(self.open(path), adapted, elements)
        folder = os.path.dirname(path)
        assert [name for name, _ in self.medium.entries(folder)] == [os.path.basename(path)]

    def test_an_unfinished_dataset_does_not_look_complete(self, root: str) -> None:
        """Where a target is not renamed in the end, nobody finds it before its last metadata is written."""
        if self.medium.renames:
            pytest.skip(f"datasets get their name in the end in {self.medium.name}")
        adapted, path = self.adapt(small_tree()), self.path(root)
        elements = {name: noise(one.shape, one.dtype) for name, one in adapted.arrays.items()}
        self.kind.create_tree(path, "", adapted, **self.there)
        self.write_arrays(path, adapted, elements)
        assert not self.kind.probe(path, **self.there)
        with pytest.raises(ReblockError):
            self.open(path)

    def copy(self, folder: str, other: str) -> None:
        """Copy everything below a folder into a new one."""
        self.medium.make_folder(other)
        for name, kind in self.medium.entries(folder):
            if kind == FOLDER:
                self.copy(f"{folder}/{name}", f"{other}/{name}")
            else:
                (data,) = snapshot(self.medium, f"{folder}/{name}").values()
                self.medium.write(f"{other}/{name}", [data])

    # ---------------------------------------------------------------- what does not belong, or is broken
    def test_strangers(self, root: str) -> None:
        path, _ = self.write(root, self.adapt(small_tree()))
        tree = self.open(path).tree
        assert list(self.kind.tree_strangers(path, tree, **self.there)) == []
        fewer = replace(tree, arrays={name: one for name, one in tree.arrays.items() if name != "deep/er/y"})
        assert any("deep/er/y" in one for one in self.kind.tree_strangers(path, fewer, **self.there))
        if is_folder(self.medium, path):
            for place in ("thesis.txt", "deep/er/notes.txt", "t2m/extra.bin"):
                self.medium.write(f"{path}/{place}", [b"precious"])
                assert any(place in one for one in self.kind.tree_strangers(path, tree, **self.there))

    def test_an_array_is_no_group(self, root: str) -> None:
        path, _ = self.write(root, self.adapt(small_tree()))
        with pytest.raises(FormatError):
            self.open(path, "deep/er/t2m")
        with pytest.raises(ReblockError):
            self.open(path, "deep/nowhere")
        with pytest.raises(StorageError, match="t2m"):
            self.kind.open(path, "", **self.there)

    def test_deep_nesting(self, root: str) -> None:
        deep = "/".join(["d"] * 40)
        self.round_trip(root, Tree(arrays={f"{deep}/a": Schema((3,), np.dtype("<i4"), (2,))}))
        too_deep = "/".join(["d"] * 200)
        with pytest.raises(UsageError, match="deep"):
            self.kind.adapt_tree(Tree(arrays={f"{too_deep}/a": Schema((3,), np.dtype("<i4"), (2,))}), ())


def same_types(found: Any, wanted: Any) -> bool:
    """Whether attributes have the same types; Python's numbers and numpy's plain ones count as equal."""
    return all(_type(found[name]) == _type(wanted[name]) for name in wanted)


def _type(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind != "U":
        return "array", value.dtype.str if value.dtype.kind != "S" else "S", value.shape
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, np.generic) and not isinstance(value, np.float64 | np.int64 | np.bool_ | np.str_):
        return "scalar", value.dtype.str
    return "plain"
