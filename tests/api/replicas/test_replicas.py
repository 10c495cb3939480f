"""Copies for every access: routing, damage, updates and repairs, on real files."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.api.replicas.array import ReadPrice, ReplicaArray, open_replicas
from reblock.api.replicas.changing import changing, repair_replicas, update_replicas
from reblock.api.replicas.making import create_replicas
from reblock.api.replicas.reading import explain_region, read_region
from reblock.api.replicas.record import _checksum, read_set
from reblock.errors import LockedError, ReblockError, StorageError, TargetExistsError, UnfinishedError, UsageError
from reblock.geometry import Box
from reblock.runs.experience import RUNS, Sample, keep
from reblock.storage.media.mounts import device_name

#: Blocks and bytes of a read, and the name of the device.
ReadChoice = tuple[float, float, str]
SHAPE = (24, 30, 20)
VALUES = np.random.default_rng(7).integers(0, 1 << 30, SHAPE, dtype="i4")
NEW = VALUES.copy()
NEW[5:9] = -1
ACCESS = "time-series=3,maps"
OPTIONS: dict[str, Any] = {"access": ACCESS, "block_size": "1KiB:4KiB", "device": "nvme"}
#: Kills of updates: a sample, or as many as the sweep asks for.
KILLS = 50


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", VALUES)
    np.save("new.npy", NEW)
    create_replicas("x.npy", "copies", **OPTIONS)
    return "copies"


def files_of(folder: str) -> list[Path]:
    """All chunks and documents of the current copies, without locks."""
    record = read_set(folder)
    found = [path for copy in record.copies for path in Path(folder, copy.path).rglob("*") if path.is_file()]
    return sorted(found)


def random_box(rng: random.Random) -> Box:
    starts = tuple(rng.randrange(n) for n in SHAPE)
    return Box(starts, tuple(rng.randint(a + 1, n) for a, n in zip(starts, SHAPE, strict=True)))


def slices(box: Box) -> tuple[slice, ...]:
    return tuple(map(slice, box.start, box.stop))


# ---------------------------------------------------------------- making
def test_every_copy_holds_the_array_and_a_checksum(folder: str) -> None:
    record = read_set(folder)
    assert len(record.copies) == 2
    assert len({copy.chunks for copy in record.copies}) == 2
    for copy in record.copies:
        array = reblock.open(f"{folder}/{copy.path}")
        assert "crc32c" in str(array.store.schema.codec)
        assert reblock.verify("x.npy", array).equal


def test_a_copy_is_made_from_what_is_cheapest(folder: str) -> None:
    seen = []
    create_replicas("x.npy", "more", **OPTIONS, codec="zstd:1", begins=lambda _, job: seen.append(job) or None)
    second = {"chunks": seen[1].schema.chunks, "codec": "zstd:1", "checksum": True, "device": "nvme"}
    origins = ("x.npy", "more/generations/000001/0.zarr")
    assert seen[1].cost.seconds == min(reblock.plan(one, "y.zarr", **second).cost.seconds for one in origins)
    assert reblock.verify("x.npy", "replicas:more").equal


def test_a_budget_limits_the_number_of_copies(folder: str) -> None:
    record = create_replicas("x.npy", "one", **OPTIONS, budget_bytes=VALUES.nbytes * 3 // 2)
    assert len(record.copies) == 1
    with pytest.raises(UsageError, match="no room for one copy"):
        create_replicas("x.npy", "none", **OPTIONS, budget_bytes="1KiB")
    assert not os.path.exists("none")


def test_an_interrupted_attempt_continues(folder: str) -> None:
    class StopError(Exception):
        pass

    def stop(number: int, job: Any) -> None:
        if number == 1:
            raise StopError

    with pytest.raises(StopError):
        create_replicas("x.npy", "late", **OPTIONS, begins=stop)
    with pytest.raises(UsageError, match="holds no replicas"):
        reblock.open("replicas:late")
    with pytest.raises(UnfinishedError, match="copies"):
        create_replicas("x.npy", "late", **{**OPTIONS, "copies": 1})
    before = os.stat("late/generations/000001/0.zarr/zarr.json").st_mtime_ns
    create_replicas("x.npy", "late", **OPTIONS)
    # The first copy was complete.
    assert os.stat("late/generations/000001/0.zarr/zarr.json").st_mtime_ns == before
    assert reblock.verify("x.npy", "replicas:late").equal


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"access": None}, "access"),
        ({"copies": 3}, "at most one copy per class"),
        ({"copies": 0}, "at least 1"),
        ({"access": "nonsense"}, "nonsense"),
    ],
)
def test_what_cannot_be_made(folder: str, options: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        create_replicas("x.npy", "bad", **{**OPTIONS, **options})


def test_other_folders_are_left_alone(folder: str) -> None:
    with pytest.raises(TargetExistsError, match="replicas already"):
        create_replicas("x.npy", folder, **OPTIONS)
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("precious")
    with pytest.raises(TargetExistsError, match="notes"):
        create_replicas("x.npy", "mine", **OPTIONS)
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


# ---------------------------------------------------------------- reading
def test_reads_go_to_the_copy_with_the_least_cost(folder: str) -> None:
    array = open_replicas(folder)
    rng, used = random.Random(3), set()
    for _ in range(1000):
        box = random_box(rng)
        prices = array.prices(box)
        assert prices[0].seconds == min(one.seconds for one in prices)
        assert sorted(one.copy for one in prices) == [0, 1]
        used.add(prices[0].copy)
    assert used == {0, 1}


def test_reads_are_right(folder: str) -> None:
    array, rng = reblock.open(f"replicas:{folder}"), random.Random(4)
    assert isinstance(array, ReplicaArray)
    for _ in range(60):
        box = random_box(rng)
        np.testing.assert_array_equal(array[slices(box)], VALUES[slices(box)])
    np.testing.assert_array_equal(array[::-3, 4, ::2], VALUES[::-3, 4, ::2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], VALUES)


def test_blocks_are_the_chunks_that_are_touched(folder: str) -> None:
    found = explain_region(folder, "3:9,4,:")
    for price in found.prices:
        counts = [
            -(-stop // size) - start // size
            for start, stop, size in zip(found.region.start, found.region.stop, price.chunks, strict=True)
        ]
        assert price.blocks == np.prod(counts)


def test_a_region_is_written_to_a_file(folder: str) -> None:
    read_region(folder, "3:9,4,:", output="part.npy")
    np.testing.assert_array_equal(np.load("part.npy"), VALUES[3:9, 4:5])
    with pytest.raises(UsageError, match="output"):
        read_region(folder, None)


# ---------------------------------------------------------------- damage
def test_a_flipped_byte_is_never_returned(folder: str) -> None:
    rng = random.Random(5)
    noticed = 0
    for path in rng.sample([*files_of(folder), Path(folder, "replicas.json")] * 2, 60):
        data = path.read_bytes()
        place = rng.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :])
        try:
            array = open_replicas(folder)
            np.testing.assert_array_equal(array[...], VALUES)
            np.testing.assert_array_equal(array[3], VALUES[3])
            np.testing.assert_array_equal(array[:, 4, 5], VALUES[:, 4, 5])
        except StorageError:
            # One bit of the record is the only damage that no copy makes good.
            assert path.name == "replicas.json"
            noticed += 1
        path.write_bytes(data)
    assert noticed < 10


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "metadata"])
def test_damage_is_read_around_and_mended(folder: str, harm: str) -> None:
    record = read_set(folder)
    path = Path(folder, record.copies[0].path, "zarr.json")
    if harm != "metadata":
        path = next(one for one in files_of(folder) if one.name != "zarr.json")
    data = path.read_bytes()
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] + (b"" if harm == "cut" else b"?" + data[len(data) // 2 + 1 :]))
    np.testing.assert_array_equal(reblock.open(f"replicas:{folder}")[...], VALUES)
    done = repair_replicas(folder)
    assert [os.path.basename(one) for one in done.mended] == [path.name]
    assert not done.lost
    for copy in read_set(folder).copies:
        assert reblock.verify("x.npy", f"{folder}/{copy.path}").equal
    assert not repair_replicas(folder).mended


def test_what_no_copy_has_is_an_error(folder: str) -> None:
    for path in files_of(folder):
        if path.name != "zarr.json":
            path.write_bytes(b"?" + path.read_bytes()[1:])
    with pytest.raises(StorageError):
        reblock.open(f"replicas:{folder}")[...]
    assert repair_replicas(folder).lost


# ---------------------------------------------------------------- updates
def test_an_update_reaches_every_copy(folder: str) -> None:
    before = reblock.open(f"replicas:{folder}")
    done = update_replicas(folder, "new.npy", region="5:9,:,:")
    assert done.generation == 2
    assert done.linked > 0
    # The reader from before keeps what it opened.
    assert done.removed == ()
    np.testing.assert_array_equal(before[...], VALUES)
    after = reblock.open(f"replicas:{folder}")
    np.testing.assert_array_equal(after[...], NEW)
    for copy in read_set(folder).copies:
        assert reblock.verify("new.npy", f"{folder}/{copy.path}").equal
    again = update_replicas(folder, "x.npy", region="5:9,:,:")
    assert again.removed == ()
    del before, after
    last = update_replicas(folder, "new.npy", region="5:6,:,:")
    assert last.removed == (1, 2, 3)


def test_the_digest_of_an_update_is_that_of_the_elements(folder: str) -> None:
    done = update_replicas(folder, "new.npy", region="5:9,:,:")
    assert done.digest == reblock.repartition("new.npy", "y.zarr", chunks="8,8,8").digest
    again = update_replicas(folder, "x.npy", region="0:24,:,:")
    assert again.digest == reblock.repartition("x.npy", "z.zarr", chunks="8,8,8").digest


@pytest.mark.parametrize(
    ("source", "region", "match"),
    [
        ("small.npy", "0:1,:,:", "needs an array like them"),
        ("new.npy", "3:3,:,:", "takes nothing"),
        ("new.npy", "0:99", "99"),
    ],
)
def test_what_cannot_be_updated(folder: str, source: str, region: str, match: str) -> None:
    np.save("small.npy", VALUES[:2])
    with pytest.raises(UsageError, match=match):
        update_replicas(folder, source, region=region)
    np.testing.assert_array_equal(reblock.open(f"replicas:{folder}")[...], VALUES)
    assert sorted(os.listdir(f"{folder}/generations")) == ["000001"]


def test_one_changes_replicas_at_a_time(folder: str) -> None:
    with changing(folder), pytest.raises(LockedError):
        update_replicas(folder, "new.npy", region="5:9,:,:")


def kill_updates(folder: str, kills: int) -> None:
    """Kill updates at random moments; readers must find all of the old elements, or all of the new ones."""
    code = (
        "import sys; from reblock.api.replicas.changing import update_replicas; print('go', flush=True); "
        "update_replicas(sys.argv[1], sys.argv[2], region='5:9,:,:')"
    )
    rng, states = random.Random(9), {"x.npy": VALUES, "new.npy": NEW}
    began = time.monotonic()
    update_replicas(folder, "new.npy", region="5:9,:,:")
    longest = 2 * (time.monotonic() - began)
    current, wanted, killed = "new.npy", "x.npy", 0
    for _ in range(kills):
        with subprocess.Popen([sys.executable, "-c", code, folder, wanted], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.random() * longest)
            killed += process.poll() is None
            process.kill()
        elements = reblock.open(f"replicas:{folder}")[...]
        found = next((name for name, values in states.items() if np.array_equal(elements, values)), None)
        assert found in (current, wanted), "a mixture of old and new"
        for copy in read_set(folder).copies:
            np.testing.assert_array_equal(reblock.open(f"{folder}/{copy.path}")[...], states[found])
        current, wanted = found, "new.npy" if found == "x.npy" else "x.npy"
    assert killed > kills // 4
    update_replicas(folder, wanted, region="5:9,:,:")
    np.testing.assert_array_equal(reblock.open(f"replicas:{folder}")[...], states[wanted])
    assert len(os.listdir(f"{folder}/generations")) == 1


def test_killed_updates(folder: str) -> None:
    kill_updates(folder, 4)


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_updates_killed_at_fifty_moments(folder: str) -> None:
    kill_updates(folder, KILLS)


# ---------------------------------------------------------------- the record
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda text: "", id="empty"),
        pytest.param(lambda text: "[]", id="a list"),
        pytest.param(lambda text: text.replace('"copies"', '"copier"'), id="another key"),
        pytest.param(lambda text: text[: len(text) // 2], id="cut"),
        pytest.param(lambda text: "[" * 100_000, id="deep"),
    ],
)
def test_a_spoiled_record_is_refused(folder: str, spoil: Any) -> None:
    path = Path(folder, "replicas.json")
    path.write_text(spoil(path.read_text()))
    with pytest.raises(StorageError, match=r"replicas\.json"):
        reblock.open(f"replicas:{folder}")


def test_a_record_cannot_name_other_folders(folder: str) -> None:
    path = Path(folder, "replicas.json")
    document = json.loads(path.read_text())
    document.pop("check")
    document["copies"][0]["path"] = "../../etc/0.zarr"
    path.write_text(json.dumps({**document, "check": _checksum(document)}))
    with pytest.raises(ReblockError, match="path"):
        reblock.open(f"replicas:{folder}")


# ---------------------------------------------------------------- the device that runs have measured
def _differ(prices: Sequence[ReadPrice]) -> bool:
    """Whether the copy with the fewest blocks reads more bytes than another."""
    few = min(prices, key=lambda one: one.blocks)
    return any(one.bytes < few.bytes / 2 and one.blocks > few.blocks for one in prices)


def test_reads_are_priced_by_the_device_that_runs_have_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device whose opens are slow and one that reads slowly send the same read to different copies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REBLOCK_CACHE", raising=False)
    np.save("x.npy", VALUES)
    create_replicas("x.npy", "copies", **{**OPTIONS, "device": "auto"})
    disk = device_name(str(tmp_path))
    assert disk is not None
    speeds = tmp_path / "cache" / "reblock" / "speeds.json"
    speeds.unlink(missing_ok=True)
    array = open_replicas("copies")
    box = next(box for box in map(random_box, map(random.Random, range(500))) if _differ(array.prices(box)))
    region = ",".join(f"{a}:{b}" for a, b in zip(box.start, box.stop, strict=True))

    def learn(quantities: dict[str, float]) -> ReadChoice:
        speeds.unlink(missing_ok=True)
        keep([Sample(disk, RUNS, 1.0), *(Sample(disk, name, value) for name, value in quantities.items())])
        found = explain_region("copies", region)
        # Every read goes to the copy that its own prices call the cheapest.
        assert found.prices[0].seconds == min(one.seconds for one in found.prices)
        return found.prices[0].blocks, found.prices[0].bytes, found.device

    assert explain_region("copies", region).device == "nvme"
    slow_opens = learn({"open": 10.0, "read small": 1e12, "read medium": 1e12, "read large": 1e12})
    slow_reads = learn({"open": 1e-9, "seek": 1e-9, "read small": 10.0, "read medium": 10.0, "read large": 10.0})
    assert slow_opens[0] <= slow_reads[0]
    assert slow_reads[1] <= slow_opens[1]
    assert slow_opens[:2] != slow_reads[:2]
    assert slow_opens[2] == slow_reads[2] == f"auto: 1 run on {disk}"
    # A device that was named is not replaced by a measured one.
    create_replicas("x.npy", "named", **OPTIONS)
    assert explain_region("named", region).device == "nvme"
