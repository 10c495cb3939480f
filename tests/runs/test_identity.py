"""Identity: which runs are the same, which job a target records, and how two problems differ in words."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reblock.engine import View
from reblock.geometry import Box
from reblock.model import Codec, Schema
from reblock.runs.identity import differences, identify, identify_array, job_of, source_changed
from reblock.runs.source import Source
from reblock.storage import registry

Problem = dict[str, Any]
Ask = Callable[..., Problem]
CHUNKS = (4, 5)


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    np.save(tmp_path / "x.npy", np.arange(160, dtype="i4").reshape(8, 20))

    def made(path: str = "x.npy", inner: str = "", view: dict[str, Any] | None = None, **target: Any) -> Problem:
        """The problem of copying an array into zarr."""
        seen = replace(View.whole(registry.open(tmp_path / path)), **(view or {}))
        kind = registry.get("zarr")
        schema = kind.adapt(replace(Schema(seen.layout.shape, np.dtype("i4"), CHUNKS), **target), ())
        return identify({"": identify_array(seen, Source(seen), inner, kind, schema)}, None)

    return made


def test_the_same_run_is_the_same(ask: Ask) -> None:
    one = ask()
    assert one == ask() == json.loads(json.dumps(one))
    assert not source_changed(one, ask())


def test_names_and_paths_are_no_part_of_it(ask: Ask, tmp_path: Path) -> None:
    one = ask()
    os.rename(tmp_path / "x.npy", tmp_path / "y.npy")
    os.symlink("y.npy", tmp_path / "z.npy")
    assert job_of(one) == job_of(ask("y.npy")) == job_of(ask("z.npy"))
    assert job_of(one) == job_of(ask("y.npy", inner="other/place"))
    assert str(tmp_path) not in json.dumps(one)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"chunks": (2, 5)}, "target.chunks was [4, 5], is [2, 5]"),
        ({"dtype": np.dtype("i8")}, 'target.dtype was "<i4", is "<i8"'),
        ({"codec": Codec.parse("zstd:5")}, 'target.codec was "none", is "zstd:5"'),
        ({"fill_value": np.int32(7)}, 'target.fill value was "00000000", is "07000000"'),
        ({"attributes": {"units": "K"}}, "target.attributes was"),
        ({"view": {"region": Box((0, 0), (8, 10))}}, "region was [[0, 8], [0, 20]], is [[0, 8], [0, 10]]"),
        ({"view": {"axes": (1, 0)}}, "transpose was [0, 1], is [1, 0]"),
        ({"view": {"strict": True}}, 'missing chunks was "fill", is "error"'),
    ],
)
def test_what_is_another_run(ask: Ask, asked: dict[str, Any], said: str) -> None:
    one, other = ask(), ask(**asked)
    assert job_of(one) != job_of(other)
    assert any(said in words for words in differences(one, other)), differences(one, other)
    assert not source_changed(one, other)


def test_a_copy_of_the_source_is_another_source(ask: Ask, tmp_path: Path) -> None:
    """Its inode shows that it was written anew; whether the bytes are the same is not known before they are read."""
    one = ask()
    shutil.copy2(tmp_path / "x.npy", tmp_path / "y.npy")
    other = ask("y.npy")
    assert source_changed(one, other)
    assert job_of(one) != job_of(other)
    assert differences(one, other) == ["the source"]


def test_many_differences_are_counted(ask: Ask) -> None:
    one = ask()
    other = ask(view={"axes": (1, 0), "strict": True}, codec=Codec.parse("zstd:5"), attributes={"units": "K"})
    found = differences(one, other)
    assert len(found) == 4
    assert found[-1].endswith(" more")
