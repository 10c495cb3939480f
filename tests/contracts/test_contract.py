"""The contract would notice: formats spoiled in one way each fail it."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reblock.errors import ReblockError
from reblock.model.layout import Layout
from reblock.model.schema import Schema
from reblock.model.store import Extent, Format, Store
from reblock.storage.blocks.format import BlocksFormat, BlocksStore
from reblock.testing import reference_io
from reblock.testing.contract import FormatContract


class LaxStore(BlocksStore):
    """Does not look at sizes, and says that missing blocks are fill."""

    @property
    def fills(self) -> bool:
        return True

    def extents(self, index: Any, units: Any, read: Any) -> list[Extent | None]:
        return [self.place(index)._replace(length=None) for _ in units]

    def decode(self, data: Any, extent: Extent, out: Any) -> None:
        out[: len(data)] = np.frombuffer(data, np.uint8)


class SwappedStore(BlocksStore):
    """Gives back the bytes of each unit in reverse."""

    def decode(self, data: Any, extent: Extent, out: Any) -> None:
        out[:] = np.frombuffer(data, np.uint8)[::-1]


class ShiftedStore(BlocksStore):
    """Names the same place for every object."""

    def place(self, index: tuple[int, ...]) -> Extent:
        return super().place((0,) * len(index))


class ClosedStore(BlocksStore):
    """Cannot be sent to another process."""

    def __reduce__(self) -> Any:
        raise TypeError("no")


@dataclass(frozen=True)
class Spoiled(BlocksFormat):
    """A format that works, but for what its subclasses change."""

    store: type[BlocksStore] = BlocksStore
    """What is opened and created."""

    def open(self, path: str, inner: str) -> Store:
        return self.store(path, super().open(path, inner).manifest)  # type: ignore[attr-defined]

    def create(self, path: str, inner: str, schema: Schema) -> Store:
        return self.store(path, super().create(path, inner, schema).manifest)  # type: ignore[attr-defined]


class Forgetful(Spoiled):
    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        return replace(super().adapt(schema, asked), attributes={}, axes=None, notes=())


class Restless(Spoiled):
    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        return replace(super().adapt(schema, asked), chunks=tuple(c + 1 for c in schema.chunks))  # type: ignore[operator]


class Boastful(Spoiled):
    def layout(self, schema: Schema) -> Layout:
        return replace(super().layout(schema), partial_reads=False)


class Greedy(Spoiled):
    def probe(self, path: str) -> bool:
        return True


class Blind(Spoiled):
    def probe(self, path: str) -> bool:
        return False


class Messy(Spoiled):
    def create(self, path: str, inner: str, schema: Schema) -> Store:
        Path(path).with_name("left-over").touch()
        return super().create(path, inner, schema)


class Rough(Spoiled):
    def open(self, path: str, inner: str) -> Store:
        os.listdir(path)
        return super().open(path, inner)


class Scribbling(Spoiled):
    def open(self, path: str, inner: str) -> Store:
        (Path(path) / "opened").write_text("")
        return super().open(path, inner)


class Overwriting(Spoiled):
    def create(self, path: str, inner: str, schema: Schema) -> Store:
        try:
            return super().create(path, inner, schema)
        except ReblockError:
            return super().create(path + "2", inner, schema)


def npy(kind: type[Spoiled], **options: Any) -> Format:
    return kind("blocks", "npy", **options)


@pytest.mark.parametrize(
    ("format", "test"),
    [
        pytest.param(npy(Spoiled, store=SwappedStore), "test_stores_say_what_they_are", id="wrong bits"),
        pytest.param(npy(Spoiled, store=ShiftedStore), "test_places_fit_the_layout", id="one place for all"),
        pytest.param(npy(Spoiled, store=ShiftedStore), "test_stores_say_what_they_are", id="overwrites itself"),
        pytest.param(npy(Spoiled, store=ClosedStore), "test_stores_can_be_pickled", id="not picklable"),
        pytest.param(npy(Spoiled, store=LaxStore), "test_truncated_files_are_noticed", id="short files"),
        pytest.param(npy(Forgetful), "test_metadata_survives_or_is_named", id="attributes lost"),
        pytest.param(npy(Restless), "test_adapt_is_idempotent", id="adapts again"),
        pytest.param(npy(Boastful), "test_stores_say_what_they_are", id="layout promised, another made"),
        pytest.param(npy(Greedy), "test_probe_refuses_others", id="claims all"),
        pytest.param(npy(Blind), "test_probe_knows_its_own", id="claims none"),
        pytest.param(npy(Messy), "test_stores_say_what_they_are", id="leaves files"),
        pytest.param(npy(Rough), "test_errors_are_typed", id="raw OSError"),
        pytest.param(npy(Scribbling), "test_a_source_is_not_written", id="writes to the source"),
        pytest.param(npy(Overwriting), "test_create_refuses_what_exists", id="creates what exists"),
    ],
)
def test_a_spoiled_format_fails(tmp_path: Path, format: Format, test: str) -> None:
    contract = FormatContract()
    contract.make_format = lambda: format  # type: ignore[method-assign]
    options = {"asked": ()} if test == "test_adapt_is_idempotent" else {"root": str(tmp_path)}
    with pytest.raises((AssertionError, OSError, TypeError, pytest.fail.Exception)):
        getattr(contract, test)(**options)


@pytest.mark.parametrize("test", ["test_stores_say_what_they_are", "test_truncated_files_are_noticed"])
def test_the_same_format_unspoiled_passes(tmp_path: Path, test: str) -> None:
    contract = FormatContract()
    contract.make_format = lambda: npy(Spoiled)  # type: ignore[method-assign]
    getattr(contract, test)(root=str(tmp_path))


def test_missing_objects_that_are_called_fill(tmp_path: Path) -> None:
    """A format that says it fills is believed, and must then give the fill value."""
    kind = npy(Spoiled, store=LaxStore)
    schema = kind.adapt(Schema((4,), np.dtype("<i4"), (2,), fill_value=np.int32(7)), ())
    store = kind.create(str(tmp_path / "b"), "", schema)
    reference_io.write_array(store, np.arange(4, dtype="<i4"), skip=[(1,)])
    store.commit()
    assert reference_io.read_array(kind.open(str(tmp_path / "b"), "")).tolist() == [0, 1, 7, 7]
