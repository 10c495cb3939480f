"""The contract of storage formats: one test suite for every format, ours and those of other authors.

::

    from reblock.testing.contract import FormatContract
    from my_package.my_format import FORMAT


    class TestMyFormat(FormatContract):
        format = FORMAT

A format raises UsageError in `adapt` for a schema that it cannot hold. Such a case is skipped, and pytest -ra
lists it with the format's message. Everything goes through `reblock.testing.reference_io`, which uses nothing
but the Store protocol.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from reblock.errors import CorruptError, ReblockError, UsageError
from reblock.geometry import Grid
from reblock.model.codec import Codec
from reblock.model.schema import Schema
from reblock.model.store import Extent, Format, Store, TransferMode
from reblock.testing.arrays import DTYPES, Array, noise, same_bits, schemas, specials
from reblock.testing.compare import check_cover, check_schema, fields, objects_below, same_value, snapshot
from reblock.testing.reference_io import find, is_there, read_array, read_extent, unit_bytes
from reblock.testing.unfinished import UnfinishedContract

#: Shapes with chunks: 0-d to 5-D, empty axes, one chunk, chunks that divide the axis or not, or exceed it.
SHAPES: tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...] = (
    ((), ()),
    ((1,), (1,)),
    ((7,), (3,)),
    ((7,), (10,)),
    ((0,), (3,)),
    ((4, 0, 3), (2, 5, 3)),
    ((6, 4), (3, 2)),
    ((13, 11), (5, 4)),
    ((5, 7, 3), (2, 7, 2)),
    ((3, 4, 5, 6), (2, 3, 2, 4)),
    ((3, 2, 4, 3, 5), (2, 2, 3, 1, 2)),
)
IRREGULAR: tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...] = (
    ((9,), ((1, 5, 3),)),
    ((10, 7), ((3, 3, 4), 4)),
    ((6, 5, 4), ((1, 2, 3), (4, 1), (2, 2))),
)
ATTRIBUTES: dict[str, Any] = {
    "title": "Überblick",
    "count": 3,
    "scale": 0.5,
    "flag": True,
    "list": [1, 2, 3],
    "nested": {"a": [None, {"b": "c"}]},
    "scalar": np.float32(1.5),
    "array": np.arange(4, dtype=np.int16),
}
#: Folders that examples of Hypothesis use.
_NUMBERS = itertools.count()


class FormatContract(UnfinishedContract):
    """Subclass with a name that pytest collects, and set `format` (or override `make_format`)."""

    codecs: ClassVar[tuple[str, ...]] = (
        *("gzip:1", "shuffle+gzip:4", "zlib:1", "lzf", "zstd:1", "lz4", "bz2:1", "crc32c", "fletcher32"),
        *("blosc:lz4:3:shuffle", "blosc:zstd:1:bitshuffle", "zstd:3+crc32c"),
    )
    """Codecs to test, as in `--codec`; those that the format refuses are skipped."""

    # ---------------------------------------------------------------- tools
    def round_trip(self, root: str, schema: Schema, asked: Collection[str] = (), data: Array | None = None) -> Store:
        """Create, write, commit and reopen an array, and compare everything; returns the reopened store."""
        if data is None:
            data = noise(schema.shape, schema.dtype)
        path, adapted, expected = self.write(root, self.adapt(schema, asked), data)
        assert self.names(root) == [os.path.basename(path)], "files outside the array's own path"
        store = self.open(path)
        check_schema(store, adapted, self.make_format().layout(adapted))
        check_cover(store.layout)
        assert same_bits(read_array(store), expected)
        return store

    # ---------------------------------------------------------------- the format
    def test_it_is_a_format(self) -> None:
        kind = self.make_format()
        assert isinstance(kind, Format)
        # A variant's name has more words after a colon.
        assert kind.name.partition(":")[0].isidentifier()
        assert all(suffix.startswith(".") for suffix in kind.suffixes)
        assert isinstance(kind.checksum, str)

    def test_stores_say_what_they_are(self, root: str) -> None:
        store = self.round_trip(root, Schema((6, 4), np.dtype("<i4"), (3, 2)))
        assert isinstance(store, Store)
        assert store.format == self.make_format().name
        assert store.location.startswith(self.path(root))
        assert store.reads in (TransferMode.EXTENT, TransferMode.BOX)
        assert store.writes in tuple(TransferMode)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_type(self, root: str, dtype: str) -> None:
        schema = Schema((5, 6), np.dtype(dtype), (2, 4))
        store = self.round_trip(root, schema)
        if store.schema.dtype != schema.dtype:
            assert self.adapt(schema).notes, "the notes must name another byte order"

    @pytest.mark.parametrize("dtype", [d for d in DTYPES if d[1] in "fc"])
    def test_every_bit_of_floats(self, root: str, dtype: str) -> None:
        data = specials(dtype)
        self.round_trip(root, Schema(data.shape, data.dtype, (4,)), data=data)

    @pytest.mark.parametrize(("shape", "chunks"), SHAPES, ids=str)
    def test_every_shape(self, root: str, shape: tuple[int, ...], chunks: tuple[Any, ...]) -> None:
        self.round_trip(root, Schema(shape, np.dtype("<u2"), chunks))

    @pytest.mark.parametrize(("shape", "chunks"), IRREGULAR, ids=str)
    def test_irregular_chunks(self, root: str, shape: tuple[int, ...], chunks: tuple[Any, ...]) -> None:
        schema = Schema(shape, np.dtype("<u2"), chunks)
        store = self.round_trip(root, schema, asked={"chunks"})
        if store.layout.objects.count > 1:
            assert store.layout.units.clipped() == Grid.of(shape, chunks)

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)], ids=str)
    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    def test_every_axis_order(self, root: str, order: tuple[int, ...], codec: str) -> None:
        schema = Schema((5, 4, 7), np.dtype("<i4"), (2, 3, 4), order=order, codec=Codec.parse(codec))
        store = self.round_trip(root, schema, asked={"order", "codec"})
        assert store.layout.order == order

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test per codec of the subclass."""
        if "each_codec" in metafunc.fixturenames:
            metafunc.parametrize("each_codec", self.codecs)

    def test_every_codec(self, root: str, each_codec: str) -> None:
        data = (np.arange(13 * 11, dtype="<i4") // 7).reshape(13, 11)
        schema = Schema(data.shape, data.dtype, (5, 4), codec=Codec.parse(each_codec))
        store = self.round_trip(root, schema, asked={"codec"}, data=data)
        assert store.layout.encoded
        # HDF5 calls zlib gzip: another name is allowed, another compressor would need a note.
        assert len(store.schema.codec.stages) == len(schema.codec.stages) or self.adapt(schema).notes

    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    @pytest.mark.parametrize("shape", [(13, 11), (12, 8), (3, 20)], ids=str)
    def test_shards(self, root: str, shape: tuple[int, ...], codec: str) -> None:
        schema = Schema(shape, np.dtype("<i4"), (3, 2), shards=(6, 8), codec=Codec.parse(codec))
        store = self.round_trip(root, schema, asked={"shards", "codec"})
        assert store.schema.shards == (6, 8)
        assert store.layout.indexed
        assert store.layout.objects.covers(store.layout.units.clipped())

    @settings(
        max_examples=max(settings.default.max_examples // 4, 1) if settings.default else 25,
        deadline=None,
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
            # Every example has a folder of its own.
            HealthCheck.function_scoped_fixture,
        ],
    )
    @given(schema=schemas())
    def test_any_array(self, root: str, schema: Schema) -> None:
        kind = self.make_format()
        try:
            kind.adapt(schema, ())
        except UsageError:
            return
        folder = f"{root}/{next(_NUMBERS)}"
        self.medium.make_folder(folder)
        self.round_trip(folder, schema)

    # ---------------------------------------------------------------- adapt
    @pytest.mark.parametrize("asked", [(), ("chunks",)], ids=str)
    def test_adapt_is_idempotent(self, asked: tuple[str, ...]) -> None:
        schema = Schema(
            (10, 7, 4),
            np.dtype(">f4"),
            (3, 4, 4),
            order=(2, 1, 0),
            codec=Codec.parse("shuffle+gzip:4"),
            fill_value=np.dtype(">f4").type(1.5),
            attributes=ATTRIBUTES,
            axes=("z", "y", "x"),
        )
        once = self.adapt(schema, asked)
        twice = self.adapt(once, asked)
        assert (once.shape, once.ndim) == (schema.shape, schema.ndim)
        assert same_value(fields(once), fields(twice))
        assert set(twice.notes) <= set(once.notes)
        assert self.make_format().layout(once) == self.make_format().layout(twice)

    def test_metadata_survives_or_is_named(self, root: str) -> None:
        schema = Schema(
            (6, 4),
            np.dtype("<f4"),
            (3, 2),
            fill_value=np.float32(-0.0),
            attributes=ATTRIBUTES,
            axes=("time", "x"),
        )
        adapted = self.adapt(schema)
        self.round_trip(root, schema)
        notes = " ".join(adapted.notes)
        lost = [
            key
            for key, value in ATTRIBUTES.items()
            if key not in adapted.attributes or not same_value(value, adapted.attributes[key])
        ]
        assert not lost or "attribute" in notes, f"{lost} lost without a note: {notes!r}"
        assert adapted.axes == schema.axes or "axes" in notes or "axis" in notes
        assert same_value(adapted.fill_value, schema.fill_value) or "fill" in notes

    @pytest.mark.parametrize("bits", [0x7FC0_0005, 0x8000_0000, 0x7F80_0000], ids=["nan", "-0", "inf"])
    def test_fill_values_keep_their_bits(self, root: str, bits: int) -> None:
        fill = np.array([bits], "<u4").view("<f4")[0]
        schema = Schema((6, 4), np.dtype("<f4"), (3, 2), fill_value=fill)
        if self.adapt(schema).fill_value is None:
            pytest.skip(f"{self.make_format().name} holds no fill value")
        data = np.full((6, 4), fill, "<f4")
        data[0, 0], data[5, 3] = 1, 2
        self.round_trip(root, schema, data=data)

    # ---------------------------------------------------------------- stores
    @pytest.mark.parametrize("codec", ["none", "gzip:1"])
    def test_missing_objects(self, root: str, codec: str) -> None:
        wanted = Schema((9, 7), np.dtype("<i4"), (4, 3), fill_value=np.int32(7), codec=Codec.parse(codec))
        schema, missing = self.adapt(wanted, {"codec"}), [(1, 2), (2, 0)]
        layout = self.make_format().layout(schema)
        if layout.objects.count < 2:
            pytest.skip(f"{self.make_format().name} holds one object, which always exists")
        path, _, expected = self.write(root, schema, noise((9, 7), schema.dtype), skip=missing)
        store = self.open(path)
        if store.reads is TransferMode.EXTENT and any(is_there(store, index) for index in missing):
            pytest.skip(f"{store.format} allocates every object at creation, so none is missing")
        if not store.fills:
            with pytest.raises(CorruptError):
                read_array(store)
            return
        for index in missing:
            expected[layout.objects.box(index).slices] = 0 if schema.fill_value is None else schema.fill_value
        assert same_bits(read_array(store), expected)
        if store.reads is TransferMode.BOX:
            boxes = {index: layout.objects.box(index) for index in layout.objects.indices()}
            stored = [i for i, box in boxes.items() if store.read_box(box, np.empty(box.shape, layout.dtype))]
            assert stored == [index for index in boxes if index not in missing], "wrong chunks reported as stored"

    def test_raw_bytes_lie_where_the_layout_says(self, root: str) -> None:
        store = self.round_trip(root, Schema((9, 7), np.dtype("<i4"), (4, 3)))
        layout = store.layout
        if layout.encoded or not layout.partial_reads or store.reads is TransferMode.BOX:
            pytest.skip(f"{store.format} cannot read a part of an object")
        array = read_array(store)
        for index in layout.objects.indices():
            box, stored = layout.objects.box(index), layout.objects.stored(index)
            (extent,) = find(store, index, [index])
            assert extent is not None
            assert extent.length in (None, stored.size * layout.itemsize)
            last = tuple(n - 1 for n in box.within(stored).stop)
            where = np.ravel_multi_index([last[a] for a in layout.order], [stored.shape[a] for a in layout.order])
            offset = extent.offset + int(where) * layout.itemsize
            here = Extent(extent.path, offset, layout.itemsize)
            one = np.frombuffer(read_extent(here, self.medium), layout.dtype)
            assert one[0] == array[tuple(n - 1 for n in box.stop)]

    def test_raw_objects_can_be_written_in_pieces(self, root: str) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3)))
        layout = self.make_format().layout(schema)
        if layout.encoded or not layout.partial_writes:
            pytest.skip(f"{self.make_format().name} writes whole objects only")
        path, _, expected = self.write(root, schema, noise((9, 7), schema.dtype), pieces=3)
        assert same_bits(read_array(self.open(path)), expected)

    def test_places_fit_the_layout(self, root: str) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3)))
        store = self.create(self.path(root), schema)
        try:
            if store.writes is not TransferMode.EXTENT:
                pytest.skip(f"{store.format} places objects itself")
            seen: set[tuple[str, int]] = set()
            for index in store.layout.objects.indices():
                place, stored = store.place(index), store.layout.objects.stored(index)
                size = stored.size * store.layout.itemsize
                assert place.length == (None if store.layout.encoded else size)
                assert len(store.preamble(index)) in (0, place.offset)
                seen.add((place.path, place.offset))
                if not store.layout.encoded:
                    flat = unit_bytes(store.layout, noise(stored.shape, store.layout.dtype))
                    assert bytes(store.encode(flat)) == flat.tobytes()
            assert len(seen) == store.layout.objects.count
        finally:
            store.abort()

    def test_what_is_stored_may_take_the_place_of_the_elements(self, root: str, each_codec: str) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (9, 7), codec=Codec.parse(each_codec)))
        store = self.create(self.path(root), schema)
        try:
            if store.writes is TransferMode.BOX:
                pytest.skip(f"{store.format} encodes itself")
            flat = unit_bytes(store.layout, noise((9, 7), store.layout.dtype))
            memory = np.concatenate([flat, np.full(9999, 165, np.uint8)])
            room = memory[: flat.size + 999]
            stored, back = store.encode(room[: flat.size], room).copy(), np.zeros_like(flat)
            store.decode(stored.data, Extent("", 0, stored.size), back)
            assert same_bits(back, flat)
            assert (memory[room.size :] == 165).all()
        finally:
            store.abort()

    def test_stores_can_be_pickled(self, root: str) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3), attributes=ATTRIBUTES))
        store = self.round_trip(root, schema)
        copy = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own bytes
        check_schema(copy, store.schema, store.layout)
        assert same_bits(read_array(copy), read_array(store))

    def test_a_source_is_not_written(self, root: str) -> None:
        path, _, _ = self.write(root, self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), noise((9, 7), "<i4"))
        before = snapshot(self.medium, path)
        for file in objects_below(self.medium, path) if self.medium.is_local else ():
            os.chmod(file, 0o444)
        store = self.open(path)
        read_array(store)
        store.abort()
        assert snapshot(self.medium, path) == before

    # ---------------------------------------------------------------- what is not ours, or broken
    def test_probe_knows_its_own(self, root: str) -> None:
        path, _, _ = self.write(root, self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), noise((9, 7), "<i4"))
        assert self.make_format().probe(path, **self.there)

    def test_probe_refuses_others(self, root: str) -> None:
        self._put_others(root)
        self.medium.write(f"{root}/full/notes.json", [b"{}"])
        self.medium.write(f"{root}/text.txt", [b"not an array\n" * 100])
        probe = self.make_format().probe
        assert len(self.names(root)) == 5
        assert [name for name in self.names(root) if probe(f"{root}/{name}", **self.there)] == []

    def _put_others(self, root: str) -> None:
        """A folder and objects that are no arrays."""
        self.medium.make_folder(f"{root}/folder")
        self.medium.write(f"{root}/empty", [b""])
        self.medium.write(f"{root}/noise.bin", [noise((4096,), "u1").tobytes()])

    def test_errors_are_typed(self, root: str) -> None:
        self._put_others(root)
        for name in ("nowhere", "folder", "empty", "noise.bin"):
            with pytest.raises(ReblockError, match=name):
                self.open(f"{root}/{name}")

    def test_an_unknown_inner_path_is_an_error(self, root: str) -> None:
        path, _, _ = self.write(root, self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), noise((9, 7), "<i4"))
        with pytest.raises(ReblockError):
            self.open(path, "no/such/array")

    def test_create_refuses_what_exists(self, root: str) -> None:
        path, adapted, expected = self.write(
            root, self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3))), noise((9, 7), "<i4")
        )
        before = snapshot(self.medium, path)
        with pytest.raises(ReblockError):
            self.create(path, adapted)
        assert snapshot(self.medium, path) == before
        assert same_bits(read_array(self.open(path)), expected)

    def test_create_in_no_folder_is_an_error(self, root: str) -> None:
        if not self.medium.is_local:
            pytest.skip(f"any key may be the beginning of another one in {self.medium.name}")
        schema = self.adapt(Schema((4,), np.dtype("<i4"), (2,)))
        self.medium.write(f"{root}/file", [b""])
        with pytest.raises(ReblockError):
            self.create(self.path(f"{root}/file"), schema)
        assert self.names(root) == ["file"]

    def test_truncated_files_are_noticed(self, root: str) -> None:
        schema = self.adapt(Schema((9, 7), np.dtype("<i4"), (4, 3), attributes={"a": "b"}))
        whole = f"{root}/whole"
        self.medium.make_folder(whole)
        path, _, expected = self.write(whole, schema, noise((9, 7), schema.dtype))
        stored = {name.removeprefix(whole): data for name, data in snapshot(self.medium, path).items()}
        for number, (name, keep) in enumerate((name, keep) for name in stored for keep in (0, 0.5, -1)):
            copy, size = f"{root}/{number}", len(stored[name])
            self.copy(whole, copy)
            self.medium.write(copy + name, [stored[name][: size - 1 if keep < 0 else int(size * keep)]])
            try:
                got = read_array(self.open(self.path(copy)))
            except ReblockError:
                continue
            assert same_bits(got, expected), f"{name} truncated to {keep} of its size was not detected"
