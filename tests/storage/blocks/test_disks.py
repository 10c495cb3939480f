"""Block folders on several disks: where blocks go, who may read them, and manifests that lie."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import (
    DiskError,
    ExternalError,
    FormatError,
    ReblockError,
    SpaceError,
    TargetExistsError,
    UnfinishedError,
    UsageError,
)
from reblock.geometry.placement import FIXED_PLACEMENTS, placing, placing_one
from reblock.model.medium import Room
from reblock.storage.media.local import LOCAL, LocalMedium
from reblock.testing.arrays import noise, same_bits


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory if possible: syncing many small files takes long on a busy disk."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else tmp_path) as name:
        yield Path(name)


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("one", "two", "number three")]
    for disk in made:
        disk.mkdir()
    return made


def save(tmp_path: Path, shape: tuple[int, ...] = (10, 7, 5), dtype: str = "<f4") -> np.ndarray[Any, Any]:
    array = noise(shape, np.dtype(dtype))
    np.save(tmp_path / "a.npy", array)
    return array


def run(tmp_path: Path, used: list[Path], **options: Any) -> str:
    target = f"{tmp_path}/vol/"
    asked: dict[str, Any] = {"chunks": (3, 4, 2), "disks": used, **options}
    reblock.repartition(tmp_path / "a.npy", target, **asked)
    return target


def blocks_of(disk: Path) -> set[str]:
    return {name for _, _, names in os.walk(disk) for name in names}


# ---------------------------------------------------------------- where blocks go
@pytest.mark.parametrize("placement", FIXED_PLACEMENTS)
@pytest.mark.parametrize("to_format", ["blocks", "rawblocks"])
def test_each_block_is_where_the_placement_says(
    tmp_path: Path, disks: list[Path], placement: str, to_format: str
) -> None:
    array = save(tmp_path)
    target = run(tmp_path, disks, placement=placement, to_format=to_format)
    suffix = "npy" if to_format == "blocks" else "bin"
    names = [f"{i}_{j}_{k}.{suffix}" for i in range(4) for j in range(2) for k in range(3)]
    found = {name: number for number, disk in enumerate(disks) for name in blocks_of(disk)}
    assert sorted(found) == sorted(names)
    if placement == "round-robin":
        assert [found[name] for name in names] == [number % 3 for number in range(24)]
    elif placement == "range":
        assert [found[name] for name in names] == [number // 8 for number in range(24)]
    elif placement == "four-way":
        assert all(found[a] != found[b] for a, b in pairwise(names) if a[:3] == b[:3])
    assert set(found.values()) == {0, 1, 2}
    assert os.listdir(target) == ["reblock.json"]
    assert same_bits(reblock.open(target, disks=disks)[...], array)
    for reader in ("reblock", "library"):
        assert reblock.verify(tmp_path / "a.npy", target, disks=disks, reader=reader)


@pytest.mark.parametrize("placement", FIXED_PLACEMENTS)
@pytest.mark.parametrize("counts", [(), (1,), (7,), (3, 1, 4), (2, 3, 2, 5)], ids=str)
def test_one_chunk_is_placed_as_many_are(placement: str, counts: tuple[int, ...]) -> None:
    indices = np.indices(counts).reshape(len(counts), -1) if counts else np.zeros((0, 1), np.int64)
    for media in (1, 2, 3, 6, 16):
        many = placing(placement, counts, media)(indices).tolist()
        one = placing_one(placement, counts, media)
        assert many == [one(tuple(index)) for index in indices.T.tolist()]
        assert all(0 <= number < media for number in many)


def test_stored_arrays_depend_on_the_placements() -> None:
    """If this fails, block folders that exist cannot be read any more."""
    indices = np.indices((3, 4)).reshape(2, -1)
    found = {name: placing(name, (3, 4), 5)(indices).tolist() for name in FIXED_PLACEMENTS}
    assert found == {
        "round-robin": [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1],
        "range": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
        "four-way": [0, 1, 2, 3, 3, 4, 0, 1, 1, 2, 3, 4],
        "random": [3, 1, 2, 3, 4, 4, 3, 1, 0, 2, 1, 3],
    }


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((), ">i2"), ((), "<f4"), ((0,), "<f4"), ((5,), "S3"), ((3, 0, 2), "?"), ((1, 1), "<c16"), ((4, 3), "<U2")],
    ids=str,
)
def test_any_shape_and_type(tmp_path: Path, disks: list[Path], shape: tuple[int, ...], dtype: str) -> None:
    save(tmp_path, shape, dtype)
    target = run(tmp_path, disks, chunks=(2,) * len(shape), placement="random")
    for reader in ("reblock", "library"):
        assert reblock.verify(tmp_path / "a.npy", target, disks=disks, reader=reader)


def test_irregular_chunks_another_order_and_a_region(tmp_path: Path, disks: list[Path]) -> None:
    array = save(tmp_path)
    view = {"region": "0:5,:,:", "transpose": "2,1,0", "to_format": "rawblocks"}
    target = run(tmp_path, disks, chunks=((2, 3), 4, (1, 4)), **view)
    assert same_bits(reblock.open(target, disks=disks)[...], np.ascontiguousarray(array[:5].transpose(2, 1, 0)))


# ---------------------------------------------------------------- from disks to disks
def test_from_disks_to_disks_and_to_zarr(tmp_path: Path, disks: list[Path]) -> None:
    array = save(tmp_path)
    source = run(tmp_path, disks)
    reblock.repartition(source, f"{tmp_path}/again/", chunks=(5, 5, 5), disks=disks, placement="range")
    assert same_bits(reblock.open(f"{tmp_path}/again/", disks=disks)[...], array)
    reblock.repartition(source, tmp_path / "b.zarr", chunks=(5, 5, 5), disks=disks)
    assert same_bits(reblock.open(tmp_path / "b.zarr")[...], array)
    reblock.repartition(source, f"{tmp_path}/here/", chunks=(5, 5, 5), allow_external=disks)
    assert same_bits(reblock.open(f"{tmp_path}/here/")[...], array)


def test_disks_may_be_mounted_elsewhere_in_any_order(tmp_path: Path, disks: list[Path]) -> None:
    array = save(tmp_path)
    target = run(tmp_path, disks)
    moved = [tmp_path / name for name in ("x", "y", "z")]
    for disk, other in zip(disks, moved, strict=True):
        disk.rename(other)
    assert same_bits(reblock.open(target, disks=moved[::-1])[...], array)
    shutil.rmtree(moved[1])
    moved[1].mkdir()
    with pytest.raises(ExternalError, match=r"some of its blocks.*vol\.reblock.*name all disks"):
        reblock.open(target, disks=moved)


def test_who_may_read(tmp_path: Path, disks: list[Path]) -> None:
    array = save(tmp_path)
    target = run(tmp_path, disks)
    for some in ([], disks[:2]):
        with pytest.raises(ExternalError, match="name all disks with disks="):
            reblock.open(target, disks=some)
    assert same_bits(reblock.open(target, allow_external=[tmp_path])[...], array)
    assert same_bits(reblock.open(target, disks=",".join(map(str, disks)))[...], array)
    info = reblock.info(target, disks=disks)
    assert [os.path.dirname(folder) for folder in info["disks"]] == list(map(str, disks))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"disks": ["no such folder"]}, "there is no folder"),
        ({"disks": [""]}, "a folder of this machine"),
        ({"disks": ["memory://a"]}, "a folder of this machine"),
        ({"disks": [".", "./"]}, "the same folder"),
        ({"placement": "range", "disks": None}, "needs the disks"),
        ({"placement": "boxes", "disks": ["."]}, "round-robin, range, four-way, random"),
        ({"placement": "", "disks": ["."]}, "round-robin, range, four-way, random"),
        ({"to_format": "zarr", "disks": ["."]}, "npy or raw, not zarr"),
        ({"to_format": "fileblocks:nii", "disks": ["."]}, "npy or raw, not fileblocks:nifti"),
        ({"to_format": "npy", "disks": ["."], "placement": "range"}, "npy or raw, not npy"),
    ],
)
def test_impossible_requests(tmp_path: Path, disks: list[Path], options: dict[str, Any], match: str) -> None:
    save(tmp_path)
    with pytest.raises(UsageError, match=match):
        run(tmp_path, disks, **options)
    assert not (tmp_path / "vol").exists()
    assert all(not os.listdir(disk) for disk in disks)


def test_a_dry_run_touches_nothing(tmp_path: Path, disks: list[Path]) -> None:
    save(tmp_path)
    reblock.check(reblock.plan(tmp_path / "a.npy", f"{tmp_path}/vol/", chunks=(3, 4, 2), disks=disks))
    assert all(not os.listdir(disk) for disk in disks)
    assert {path.name for path in tmp_path.iterdir()} == {"a.npy", *(disk.name for disk in disks)}


# ---------------------------------------------------------------- replaced, unfinished, discarded
def test_overwrite_removes_the_old_blocks(tmp_path: Path, disks: list[Path]) -> None:
    save(tmp_path)
    run(tmp_path, disks)
    before = {disk: os.listdir(disk) for disk in disks}
    with pytest.raises(TargetExistsError):
        run(tmp_path, disks, chunks=(5, 5, 5))
    array = save(tmp_path, dtype="<i8")
    target = run(tmp_path, disks, chunks=(5, 5, 5), overwrite=True)
    for disk in disks:
        (name,) = os.listdir(disk)
        assert name not in before[disk]
    assert same_bits(reblock.open(target, disks=disks)[...], array)
    # By an array that is not spread, if the disks are declared.
    with pytest.raises(TargetExistsError, match="outside"):
        reblock.repartition(tmp_path / "a.npy", target, chunks=(5, 5, 5), overwrite=True)
    reblock.repartition(tmp_path / "a.npy", target, chunks=(5, 5, 5), overwrite=True, allow_external=disks)
    assert same_bits(reblock.open(target)[...], array)
    assert all(not os.listdir(disk) for disk in disks)


def test_overwrite_spares_what_is_not_a_block(tmp_path: Path, disks: list[Path]) -> None:
    array = save(tmp_path)
    target = run(tmp_path, disks)
    (folder,) = disks[1].iterdir()
    (folder / "thesis.txt").write_text("precious")
    with pytest.raises(TargetExistsError, match=r"thesis\.txt"):
        run(tmp_path, disks, overwrite=True)
    assert (folder / "thesis.txt").read_text() == "precious"
    assert same_bits(reblock.open(target, disks=disks)[...], array)


def stopped(tmp_path: Path, disks: list[Path], **options: Any) -> None:
    """A run that was stopped after some boxes were finished."""
    job = reblock.plan(tmp_path / "a.npy", f"{tmp_path}/vol/", chunks=(1, 1, 1), disks=disks, **options)
    seen: list[bool] = []

    def progress(done: int, total: int) -> None:
        seen.append(done > total * 0.52)

    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=progress, cancelled=lambda: any(seen))


def test_stopped_resumed_and_cleaned(tmp_path: Path, disks: list[Path]) -> None:
    array = save(tmp_path, (12, 10, 8))
    stopped(tmp_path, disks, placement="range")
    state = reblock.status(f"{tmp_path}/vol/")
    assert state is not None
    assert [os.path.dirname(folder) for folder in state.disks] == list(map(str, disks))
    assert (state.options["disks"], state.options["placement"]) == (list(map(str, disks)), "range")
    assert not any(name for disk in disks for name in os.listdir(disk) if not name.startswith("."))
    with pytest.raises(UnfinishedError, match=r"target\.placement"):
        run(tmp_path, disks, chunks=(1, 1, 1), placement="random")
    with pytest.raises(UnfinishedError, match=r"target\.disks"):
        run(tmp_path, disks[:2], chunks=(1, 1, 1), placement="range")
    report = reblock.resume(f"{tmp_path}/vol/")
    assert report is not None
    assert report.resumed_boxes > 0
    assert same_bits(reblock.open(f"{tmp_path}/vol/", disks=disks)[...], array)
    assert reblock.status(f"{tmp_path}/vol/") is None
    assert reblock.clean(f"{tmp_path}/vol/") == []
    shutil.rmtree(tmp_path / "vol")
    for disk in disks:
        shutil.rmtree(disk)
        disk.mkdir()
    stopped(tmp_path, disks)
    assert len(reblock.clean(f"{tmp_path}/vol/")) >= len(disks)
    assert all(not os.listdir(disk) for disk in disks)
    assert {path.name for path in tmp_path.iterdir()} == {"a.npy", *(disk.name for disk in disks)}


def test_a_disk_that_is_not_mounted(tmp_path: Path, disks: list[Path]) -> None:
    array = save(tmp_path, (12, 10, 8))
    stopped(tmp_path, disks)
    disks[2].rename(tmp_path / "away")
    for call in (reblock.resume, reblock.clean):
        with pytest.raises(ReblockError, match="number three"):
            call(f"{tmp_path}/vol/")
    disks[2].mkdir()
    with pytest.raises(DiskError, match="not mounted"):
        reblock.resume(f"{tmp_path}/vol/")
    disks[2].rmdir()
    (tmp_path / "away").rename(disks[2])
    reblock.resume(f"{tmp_path}/vol/")
    assert same_bits(reblock.open(f"{tmp_path}/vol/", disks=disks)[...], array)


def test_the_same_job_again(tmp_path: Path, disks: list[Path]) -> None:
    save(tmp_path)
    run(tmp_path, disks)
    before = [os.listdir(disk) for disk in disks]
    run(tmp_path, disks, exist_ok=True)
    assert [os.listdir(disk) for disk in disks] == before


def test_space_is_counted_on_each_disk(tmp_path: Path, disks: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, (40, 40, 40))
    asked = LocalMedium.room

    def room(self: LocalMedium, folder: str) -> Room:
        # Each disk is a device of its own; the second has room for fewer bytes than a third of the array.
        if folder in map(str, disks):
            return Room(folder, 80_000 if folder == str(disks[1]) else 90_000, None)
        return asked(self, folder)

    monkeypatch.setattr(LocalMedium, "room", room)
    with pytest.raises(SpaceError, match="two") as caught:
        run(tmp_path, disks, chunks=(10, 10, 10))
    assert (caught.value.path, caught.value.free) == (str(disks[1]), 80_000)
    assert all(not os.listdir(disk) for disk in disks)
    # 256,000 bytes on three disks: 88,000, 84,000 and 84,000.
    assert caught.value.needed == 84_000


# ---------------------------------------------------------------- manifests that lie
def _folders(change: Callable[[list[Any]], Any]) -> Callable[[dict[str, Any]], None]:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["disks"]["folders"] = change(manifest["disks"]["folders"])

    return edit


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["disks"][key] = value

    return edit


LIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "no disks": lambda manifest: manifest.pop("disks"),
    "disks are a list": lambda manifest: manifest.update(disks=[]),
    "an older version": lambda manifest: manifest.update(reblock=1),
    "a newer version": lambda manifest: manifest.update(reblock=3),
    "version true": lambda manifest: manifest.update(reblock=True),
    "no placement": lambda manifest: manifest["disks"].pop("placement"),
    "another placement": _set("placement", "boxes"),
    "a placement that is a list": _set("placement", ["range"]),
    "no folders": _set("folders", []),
    "folders are text": _set("folders", "/etc"),
    "too many folders": _set("folders", [f"/d/x.reblock-{'0' * 16}.{n}" for n in range(5000)]),
    "a number": _folders(lambda some: [1, *some[1:]]),
    "a system folder": _folders(lambda some: ["/etc", *some[1:]]),
    "a relative folder": _folders(lambda some: [f"x/vol.reblock-{'0' * 16}.0", *some[1:]]),
    "a step back": _folders(lambda some: [f"{os.path.dirname(some[0])}/../vol.reblock-{'0' * 16}.0", *some[1:]]),
    "a NUL": _folders(lambda some: [f"/a\0b/vol.reblock-{'0' * 16}.0", *some[1:]]),
    "another order": _folders(lambda some: some[::-1]),
    "twice the same": _folders(lambda some: [some[0], some[0], some[2]]),
    "outside": _folders(lambda some: [f"/etc/vol.reblock-{'0' * 16}.0", *some[1:]]),
    "fewer": _folders(lambda some: some[:2]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_that_lies(tmp_path: Path, disks: list[Path], lie: str) -> None:
    save(tmp_path)
    target = run(tmp_path, disks)
    path = Path(target) / "reblock.json"
    manifest = json.loads(path.read_text())
    LIES[lie](manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises((FormatError, ExternalError, DiskError, reblock.CorruptError)):
        reblock.open(target, disks=disks)[...]
    if lie not in ("an older version", "fewer"):
        with pytest.raises(TargetExistsError):
            run(tmp_path, disks, overwrite=True)
    # Whatever it says, nothing is removed.
    assert sum(len(blocks_of(disk)) for disk in disks) == 24


@pytest.mark.parametrize("what", ["folder", "block"])
def test_links_that_lead_out_of_the_disks(tmp_path: Path, disks: list[Path], what: str) -> None:
    save(tmp_path)
    target = run(tmp_path, disks)
    (folder,) = disks[0].iterdir()
    outside = tmp_path / "outside"
    if what == "folder":
        folder.rename(outside)
        folder.symlink_to(outside)
    else:
        (folder / "0_0_0.npy").rename(outside)
        (folder / "0_0_0.npy").symlink_to(outside)
    with pytest.raises(ExternalError):
        reblock.open(target, disks=disks)[...]
    assert reblock.open(target, disks=[*disks, tmp_path]) is not None


def test_two_folders_of_one_name(tmp_path: Path, disks: list[Path]) -> None:
    """Neither is believed: one of them may be planted."""
    save(tmp_path)
    target = run(tmp_path, disks)
    (folder,) = disks[0].iterdir()
    shutil.copytree(folder, LOCAL.workspace(str(folder)).array)
    with pytest.raises(FormatError, match="remove the folder"):
        reblock.open(target, disks=disks)


def test_disks_apart_from_the_source(tmp_path: Path, disks: list[Path]) -> None:
    """A source may be on one of the disks; a target may not be written over what a source reads."""
    array = save(disks[0])
    reblock.repartition(disks[0] / "a.npy", f"{tmp_path}/vol/", chunks=(3, 4, 2), disks=disks)
    assert same_bits(reblock.open(f"{tmp_path}/vol/", disks=disks)[...], array)
    inside = next(disks[1].glob("vol.*"))
    with pytest.raises(UsageError, match="overlap"):
        reblock.repartition(f"{tmp_path}/vol/", f"{inside}/new/", chunks=(5, 5, 5), allow_external=disks)


def test_a_name_that_is_taken_on_a_disk(tmp_path: Path, disks: list[Path]) -> None:
    """Somebody takes the name of a folder of blocks while the run works: nothing of theirs is read or removed."""
    array = save(tmp_path)
    job = reblock.plan(tmp_path / "a.npy", f"{tmp_path}/vol/", chunks=(3, 4, 2), disks=disks)
    taken: list[Path] = []

    def progress(_done: int, _total: int) -> None:
        if not taken and (found := reblock.status(f"{tmp_path}/vol/")) is not None:
            taken.append(Path(found.disks[1]))
            taken[0].mkdir()
            (taken[0] / "0_0_1.npy").write_text("theirs")

    with pytest.raises(FormatError, match="move it away"):
        reblock.run(job, progress=progress)
    with pytest.raises(FormatError, match="remove the folder"):
        reblock.open(f"{tmp_path}/vol/", disks=disks)
    assert (taken[0] / "0_0_1.npy").read_text() == "theirs"
    taken[0].rename(tmp_path / "away")
    # Readable before and after the next command ends the run, also by those who opened it before.
    opened = reblock.open(f"{tmp_path}/vol/", disks=disks)
    assert same_bits(opened[...], array)
    reblock.resume(f"{tmp_path}/vol/")
    assert same_bits(opened[...], array)
    assert same_bits(reblock.open(f"{tmp_path}/vol/", disks=disks)[...], array)
    assert all(not name.startswith(".") for disk in disks for name in os.listdir(disk))
