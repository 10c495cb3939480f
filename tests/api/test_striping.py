"""Advice on striping: by the table of mounts, which stands in for a Lustre file system here. None was run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.advisor.striping import MAX_STRIPES, stripes_for, striping_advice
from reblock.api import job as jobs
from reblock.storage.media.mounts import is_lustre

LINE = "{number} 1 0:{number} / {place} rw,relatime shared:1 - {kind} {source} rw"


def table(path: Path, *mounts: tuple[str, str]) -> str:
    """A table of mounts, as Linux writes it."""
    lines = [
        LINE.format(number=number, place=place.replace(" ", "\\040"), kind=kind, source="10.0.0.1@tcp:/scratch")
        for number, (place, kind) in enumerate(mounts, 30)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_the_nearest_mount_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a b" / "local"
    mounts = table(tmp_path / "mounts", ("/", "ext4"), (f"{tmp_path}/a b", "lustre"), (str(inner), "tmpfs"))
    assert is_lustre(f"{tmp_path}/a b", mounts)
    assert is_lustre(f"{tmp_path}/a b/new/y.zarr", mounts)
    assert not is_lustre(f"{tmp_path}/a bc", mounts)
    assert not is_lustre(str(inner / "y.zarr"), mounts)
    assert not is_lustre("/", mounts)


def test_a_later_mount_covers_an_earlier_one(tmp_path: Path) -> None:
    mounts = table(tmp_path / "mounts", ("/", "ext4"), (str(tmp_path), "lustre"), (str(tmp_path), "nfs4"))
    assert not is_lustre(str(tmp_path), mounts)


@pytest.mark.parametrize("text", [None, "", "nonsense\n - \n1 2 3 - lustre\n"])
def test_tables_that_say_nothing(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "mounts").write_text(text)
    assert not is_lustre(str(tmp_path), str(tmp_path / "mounts"))


def test_stripes_follow_the_size_of_files() -> None:
    assert [stripes_for(size) for size in (0, 1, 1 << 30, 12 << 30, 1 << 40)] == [1, 1, 1, 12, MAX_STRIPES]
    assert "lfs setstripe -c 12 -S 4M '/a b'" in striping_advice("/a b", 12 << 30, 1)
    assert "shards would make fewer" in striping_advice("/a", 1 << 20, 10**6)


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [("y.zarr", {"chunks": 4}, "lfs setstripe -c 1 "), ("y.npy", {}, "file of up to 480 B"), ("s3://b/y.zarr", {}, "")],
)
def test_a_plan_on_lustre_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, options: dict[str, Any], words: str
) -> None:
    mounts = table(tmp_path / "mounts", ("/", "ext4"), (str(tmp_path), "lustre"))
    np.save(tmp_path / "x.npy", np.arange(60).reshape(6, 10))
    where = target if "://" in target else str(tmp_path / target)
    job = reblock.plan(tmp_path / "x.npy", where, **options)
    assert not any("Lustre" in note for note in job.notes)
    monkeypatch.setattr(jobs, "is_lustre", partial(is_lustre, mounts=mounts))
    found = [note for note in job.notes if "Lustre" in note]
    assert len(found) == bool(words)
    if found:
        assert words in found[0]
        assert str(tmp_path) in found[0]
        assert found[0] in job.to_json()["notes"]
        assert "lfs setstripe" in job.explain()
