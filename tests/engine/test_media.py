"""The engine on media: any of them as source and as target, and objects that change while they are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases import fill, make
from reblock.cost import PRESETS
from reblock.engine import View, execute_plan, load
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.source_state import SourceState
from reblock.engine.watch import Watch
from reblock.errors import ChangedError
from reblock.geometry import Box
from reblock.model import Problem, Store
from reblock.model.codec import Codec
from reblock.planner import choose
from reblock.storage.media.memory import MEMORY

ARRAY = np.arange(40 * 30 * 10, dtype="u2").reshape(40, 30, 10)


def move(source: Store, target: Store, watch: Watch | None = None) -> None:
    view = View.whole(source)
    plan = choose(Problem(view.layout, target.layout, 1 << 20, PRESETS["nvme"]), strategy="keep").plan
    execute_plan(plan, view, target, None, watch=watch)  # type: ignore[arg-type]


@pytest.mark.parametrize("media", [("memory", "memory"), ("memory", "local"), ("local", "memory")], ids="-".join)
@pytest.mark.parametrize(
    ("format_name", "options"),
    [
        ("npy", {}),
        ("blocks", {}),
        ("rawblocks", {"order": (2, 0, 1)}),
        ("zarr2", {"codec": Codec.parse("zlib:1")}),
        ("zarr", {"codec": Codec.parse("blosc:lz4:3:shuffle")}),
        ("zarr", {"shards": (16, 16, 10)}),
        ("zarr", {"shards": (16, 16, 10), "codec": Codec.parse("gzip:1")}),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_arrays_move_between_media(
    format_name: str, options: dict, media: tuple[str, str], tmp_path: Path, memory_folder: str
) -> None:
    folders = {"memory": memory_folder, "local": tmp_path}
    source = make(folders[media[0]], "source", format_name, ARRAY.shape, (8, 8, 5), **options)
    fill(source, ARRAY)
    target = make(folders[media[1]], "target", "zarr", ARRAY.shape, (10, 7, 10))
    move(source, target)
    target.commit()
    assert target.medium.is_local == (media[1] == "local")
    assert np.array_equal(load(View.whole(target), Box.whole(ARRAY.shape)), ARRAY)


@pytest.mark.parametrize("codec", ["none", "zlib:1"])
@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_an_object_that_changes_is_noticed_when_it_is_read(how: str, codec: str, memory_folder: str) -> None:
    source = make(memory_folder, "source", "zarr", ARRAY.shape, (8, 8, 5), codec=Codec.parse(codec))
    fill(source, ARRAY)
    seen = SourceState(View.whole(source))
    move(source, make(memory_folder, "first", "zarr", ARRAY.shape, (10, 7, 10)), Watch(source=seen))
    key = source.place((1, 2, 0)).path
    if how == "removed":
        MEMORY.remove(key)
    else:
        with MEMORY.reader(key) as handle:
            data = bytearray(handle.size())
            handle.read(memoryview(data), 0)
        MEMORY.write(key, [data])
    with pytest.raises(ChangedError, match=f"{key} .*{'is missing now' if how == 'removed' else 'replaced'}"):
        move(source, make(memory_folder, "second", "zarr", ARRAY.shape, (10, 7, 10)), Watch(source=seen))
    now = seen.again(seen.start.newest_ns + 1)
    assert now.firm != seen.start.firm
    assert seen.differing(now) == [key]


def test_an_object_that_appears_is_noticed(memory_folder: str) -> None:
    source = make(memory_folder, "source", "zarr", ARRAY.shape, (8, 8, 5))
    fill(source, ARRAY)
    key = source.place((0, 0, 0)).path
    MEMORY.remove(key)
    opener = Opener(source, SourceState(View.whole(source)))
    with pytest.raises(FileNotFoundError):
        opener.reader(key, number=0)
    MEMORY.write(key, [b"abc"])
    with pytest.raises(ChangedError, match="replaced"):
        opener.reader(key, number=0)
    assert opener.reader(key).size() == 3
