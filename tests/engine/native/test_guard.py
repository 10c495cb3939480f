"""The compiled library refuses arguments that describe impossible memory: an error, never a crash."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reblock.engine import native
from reblock.engine.native.loading import library
from reblock.engine.native.structs import (
    PROBLEMS,
    BatchStruct,
    DecoderStruct,
    LookStruct,
    PassStruct,
    ResultStruct,
    WindowStruct,
)

pytestmark = pytest.mark.skipif(library() is None, reason="the compiled loop was not built")

HUGE = 2**62


class Arguments:
    """Sound arguments for a call that moves four bytes of a file; tests spoil them."""

    def __init__(self, path: str) -> None:
        self.box = np.zeros(4, np.uint8)
        self.record = np.array([native.address(self.box), 4, 0, 0], np.uint64)
        self.table = np.array([native.address(self.record)], np.uint64)
        self.counts, self.cuts, self.lengths = (np.array(one, np.int64) for one in ([1], [0, 4], [4]))
        self.shape, self.order, self.fill = np.array([4]), np.array([0]), np.array([7], np.uint8)
        self.stamps = np.array([1], np.uint16)
        self.names, self.source = path.encode() + b"\0", np.frombuffer(b"ABCD", np.uint8)
        self.rows = np.array([[-1, 0, 0, 4, 1, 1, 0, 0, 4, 0, 4, 0, 4]], np.int64)
        self.staging, self.decoded = np.zeros(3 * 4096, np.uint8), np.zeros(4, np.uint8)
        self.completed, self.odd = np.full(1, -1, np.int64), np.zeros(1, np.int64)
        self.place = np.array([1, 0, 0, 4], np.int64)
        self.sweep = PassStruct(1, 1, 0, 1, 1 << 20, 1, 0, 1, 0, 1, native.address(self.stamps))
        self.sweep.shape, self.sweep.fill = native.address(self.shape), native.address(self.fill)
        self.sweep.target_order = self.sweep.source_order = native.address(self.order)
        self.window = WindowStruct(*map(native.address, (self.counts, self.cuts, self.lengths, self.table)))
        self.kept = ctypes.create_string_buffer(self.names, len(self.names))
        self.batch = BatchStruct(
            *(1, native.address(self.rows), len(self.names), ctypes.addressof(self.kept)),
            *(self.staging.size, native.address(self.staging), 1, native.address(self.completed)),
        )
        self.result, self.room, self.group, self.most = ResultStruct(), 3 * 4096, 1, 4096
        self.code = np.zeros(3, np.int64)
        self.copy = ctypes.CFUNCTYPE(
            ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
        )(lambda _, start, length, to, size: 0 if length == size and ctypes.memmove(to, start, size) else 1)
        self.decoder = DecoderStruct(ctypes.cast(self.copy, ctypes.c_void_p), None, 0, 0, 0, native.address(self.code))
        self.decoded_bytes = 4

    def scatter(self) -> int:
        return library().reblock_scatter(  # type: ignore[union-attr]
            *(self.sweep, self.window, native.address(self.source), native.address(self.place)),
            *(native.address(self.completed), self.completed.size),
        )

    def read(self) -> int:
        return library().reblock_read(  # type: ignore[union-attr]
            self.sweep, self.window, self.batch, self.room, self.group, self.result
        )

    def decode(self) -> int:
        found = library().reblock_decode(  # type: ignore[union-attr]
            *(self.sweep, self.window, self.batch, self.most, 0, self.decoder, native.address(self.decoded)),
            *(self.decoded_bytes, self.result, native.address(self.odd)),
        )
        return int(found)

    def fetch(self) -> int:
        return library().reblock_fetch(  # type: ignore[union-attr]
            self.sweep, self.batch, self.most, 0, ctypes.c_int64()
        )


@pytest.fixture
def given(tmp_path: Path) -> Arguments:
    (tmp_path / "x").write_bytes(b"ABCD")
    return Arguments(str(tmp_path / "x"))


def test_sound_arguments_are_not_refused(given: Arguments) -> None:
    for call, expected in ((given.scatter, 1), (given.read, 0), (given.decode, 0), (given.fetch, 4)):
        given.box[:], given.record[1], given.result = 0, 4, ResultStruct()
        given.completed[:] = -1
        assert call() == expected
        assert call == given.fetch or (given.box.tobytes(), given.completed[0]) == (b"ABCD", 0)
    assert not given.result.problem


def spoil(path: str, value: Any) -> Callable[[Arguments], None]:
    """Set `attribute.field` or `attribute[index]`."""

    def change(given: Arguments) -> None:
        name, _, rest = path.partition(".")
        if rest:
            setattr(getattr(given, name), rest, value)
        elif "[" in name:
            name, _, index = name.rstrip("]").partition("[")
            getattr(given, name)[tuple(map(int, index.split(",")))] = value
        else:
            setattr(given, name, value)

    return change


SWEEP = [
    *(("sweep.ndim", value) for value in (-1, 33, HUGE)),
    *(("sweep.itemsize", value) for value in (-1, 0, HUGE)),
    *(("sweep.component", value) for value in (-1, 2)),
    *(("sweep.share", value) for value in (-1, 0)),
    *((f"sweep.{name}", None) for name in ("shape", "target_order", "source_order", "fill")),
    *(("order[0]", value) for value in (-1, 1, HUGE)),
    ("shape[0]", -1),
]
WINDOW = [
    *((f"window.{name}", None) for name in ("counts", "cuts", "lengths", "table")),
    *(("counts[0]", value) for value in (-1, 0, 2, HUGE)),
    *(("lengths[0]", value) for value in (-1, 0, 3)),
    ("record[0]", 0),
]
BATCH = [
    *((f"batch.{name}", None) for name in ("rows", "paths", "staging", "completed")),
    *(("batch.count", value) for value in (-1, HUGE)),
    *(("batch.path_bytes", value) for value in (-1, 0, 1)),
    *(("batch.staging_bytes", value) for value in (-1, HUGE + 1)),
    *(("rows[0,1]", value) for value in (-1, 10**6)),
    *(("rows[0,6]", value) for value in (-1, 1, HUGE)),
]
ROW = [
    *(("rows[0,8]", value) for value in (-1, 3)),
    *(("rows[0,10]", value) for value in (3, 5, HUGE)),
    *(("rows[0,11]", value) for value in (-1, 5)),
    *(("rows[0,7]", value) for value in (-(2**63), 1)),
    *(("result.row", -1), ("result.completed", -1), ("batch.completed_count", 0)),
]


def refused(given: Arguments, call: Callable[[], int]) -> None:
    assert call() == -1
    assert (PROBLEMS[given.result.problem], given.result.error) == ("refused", errno.EINVAL)
    assert given.completed[0] == -1


@pytest.mark.parametrize(("path", "value"), [*SWEEP, *WINDOW])
def test_scatter(path: str, value: Any, given: Arguments) -> None:
    spoil(path, value)(given)
    assert given.scatter() == -1
    assert given.box.tobytes() == bytes(4)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *SWEEP,
        *WINDOW,
        *BATCH,
        *ROW,
        *(("group", value) for value in (-1, 0, 2, HUGE)),
        *(("room", value) for value in (-1, 0, 8192, HUGE)),
        *(("rows[0,2]", value) for value in (-1, 2**63 - 1)),
        ("rows[0,3]", -2),
    ],
)
def test_read(path: str, value: Any, given: Arguments) -> None:
    spoil(path, value)(given)
    refused(given, given.read)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *SWEEP,
        *WINDOW,
        *BATCH,
        *ROW,
        *(("decoded_bytes", value) for value in (-1, 3)),
        *(("decoder.decode", None), ("decoder.context", None), ("most", -1)),
        *(("decoder.planes", value) for value in (-1, 2, HUGE)),
    ],
)
def test_decode(path: str, value: Any, given: Arguments) -> None:
    spoil(path, value)(given)
    refused(given, given.decode)


@pytest.mark.parametrize(("table", "lead"), [(0, 0), (-1, 0), (5, 0), (HUGE, 0), (4, -1), (4, 65), (4, HUGE)])
def test_decoders_that_find_parts(table: int, lead: int, given: Arguments) -> None:
    given.decoder.find = ctypes.cast(given.copy, ctypes.c_void_p)
    given.decoder.table_bytes, given.decoder.lead_bytes = table, lead
    refused(given, given.decode)


@pytest.mark.parametrize(("path", "value"), [*SWEEP, *BATCH, ("batch.count", 2), ("most", -1), ("most", 3)])
def test_fetch(path: str, value: Any, given: Arguments) -> None:
    spoil(path, value)(given)
    assert given.fetch() == -1


def test_more_bytes_than_the_staging_memory_has(given: Arguments) -> None:
    given.batch.staging_bytes = 3
    assert given.fetch() == -1
    assert given.decode() == 1
    assert given.odd[0] == 0


@pytest.mark.parametrize("name", ["scatter", "read", "decode", "fetch"])
def test_null_pointers(name: str) -> None:
    function = getattr(library(), f"reblock_{name}")
    numbers = (ctypes.c_int, ctypes.c_int64)
    assert function(*(1 if kind in numbers else None for kind in function.argtypes)) == -1


@pytest.mark.parametrize(
    ("column", "value"),
    [(0, 0), (2, -1), (2, 10**6), (3, -1), (3, 2**63 - 1), (4, -1), (5, -1), (5, 3), (8, -1)],
    ids=str,
)
def test_write(column: int, value: int, tmp_path: Path) -> None:
    data, result = np.arange(4, dtype=np.uint8), ResultStruct()
    names = str(tmp_path / "y").encode() + b"\0"
    row = np.array([native.address(data), 0, 0, 0, 4, 0, 0, 1, 0], np.int64)
    write = library().reblock_write  # type: ignore[union-attr]
    assert not write(1, native.address(row), names, len(names), result)
    (tmp_path / "y").unlink()
    row[column], result = value, ResultStruct()
    assert write(1, native.address(row), names, len(names), result) == -1
    assert PROBLEMS[result.problem] == "refused"
    assert not list(tmp_path.iterdir())
    for arguments in ((-1, 1), (1, -1), (1, 0), (1, len(names) - 1)):
        assert write(arguments[0], native.address(row), names, arguments[1], ResultStruct()) == -1
    assert write(1, None, names, len(names), ResultStruct()) == -1
    assert write(1, native.address(row), None, len(names), ResultStruct()) == -1
    assert write(1, native.address(row), names, len(names), None) == -1


@pytest.mark.parametrize(
    "wrong",
    [{"share": 0}, {"stamps": None}, {"stamp_count": 1}, {"list": None}, {"list_count": 1}, {"suspects": -1}],
    ids=str,
)
def test_look(wrong: dict[str, Any], tmp_path: Path) -> None:
    names, stamps, listed = b"a\0b\0", np.zeros(2, np.uint16), np.zeros(2, np.int64)
    fields = {"share": 1, "exact": 1, "stamp_count": 2, "stamps": native.address(stamps), "since": 2**62}
    fields |= {"list_count": 2, "list": native.address(listed)}
    look = library().reblock_look  # type: ignore[union-attr]
    assert look(2, names, 0, LookStruct(**fields)) == 0
    assert look(2, names, 0, LookStruct(**{**fields, **wrong})) == -1
    for count, number in ((-1, 0), (2, -1), (2, 1), (2, 2**63 - 1)):
        assert look(count, names, number, LookStruct(**fields)) == -1
    assert look(2, None, 0, LookStruct(**fields)) == -1
    assert look(2, names, 0, None) == -1


def test_settle() -> None:
    seen, settle = np.zeros((1, 4), np.int64), library().reblock_settle  # type: ignore[union-attr]
    for count, path, memory in ((-1, b"a\0", native.address(seen)), (1, None, native.address(seen)), (1, b"a\0", None)):
        assert settle(count, path, memory) == -1


@pytest.mark.parametrize(("ndim", "itemsize", "component"), [(-1, 4, 0), (65, 4, 0), (1, 0, 0), (1, 4, 8), (1, 4, -1)])
def test_digest(ndim: int, itemsize: int, component: int) -> None:
    data = np.zeros(4, np.int64)
    pointers = [native.address(data)] * 6
    digest = library().reblock_digest  # type: ignore[union-attr]
    assert digest(1, 4, 0, *pointers) == 0
    assert digest(ndim, itemsize, component, *pointers) == -1
    for place in range(6):
        assert digest(1, 4, 0, *pointers[:place], None, *pointers[place + 1 :]) == -1


def test_adapters_of_codecs() -> None:
    data, memory = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    context = np.array([1, 1, 16], np.int64)
    start, length = ctypes.c_int64(), ctypes.c_int64()
    pointers = [native.address(one) for one in (context, data, memory)]
    for name in ("blosc", "zstd"):
        decode = getattr(library(), f"reblock_{name}_decode")
        decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
        for place in range(3):
            some = [None if place == at else pointer for at, pointer in enumerate(pointers)]
            assert decode(some[0], some[1], 64, some[2], 64)
        assert decode(pointers[0], pointers[1], -1, pointers[2], 64)
        assert decode(pointers[0], pointers[1], 64, pointers[2], -1)
    find = library().reblock_blosc_find  # type: ignore[union-attr]
    find.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 3
    for number, blocks, size in ((-1, 1, 16), (1, 1, 16), (0, 0, 16), (0, 1, 0), (0, HUGE, HUGE), (0, -1, -1)):
        context[1:] = blocks, size
        assert find(pointers[0], pointers[1], 64, number, ctypes.byref(start), ctypes.byref(length), pointers[2])
