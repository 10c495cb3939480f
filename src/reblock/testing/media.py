"""The contract of media: one test suite for every medium, ours and those of other authors.

::

    from reblock.testing.media import MediumContract
    from my_package.my_medium import MEDIUM


    class TestMyMedium(MediumContract):
        medium = MEDIUM

        def root(self, tmp_path):
            return f"mine://bucket/{uuid4().hex}"

Every test works in a folder of its own, which `root` names and which exists and is empty.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from reblock.model.medium import FILE, FOLDER, PAGE_BYTES, Listed, Medium, Room, Status

_THREADS = 8


class MediumContract:
    """Subclass with a name that pytest collects, and set `medium` (or override `make_medium`)."""

    medium: ClassVar[Medium | None] = None
    """The medium under test."""
    stamps_bytes: ClassVar[bool] = False
    """Whether a stamp belongs to the bytes of an object, so that the same bytes written again may keep it."""

    def make_medium(self) -> Medium:
        """The medium under test."""
        assert self.medium is not None, "set `medium` in the subclass, or override `make_medium`"
        return self.medium

    def root(self, tmp_path: Path) -> str:
        """The key of an empty folder that nobody else uses."""
        return str(tmp_path)

    # ---------------------------------------------------------------- tools
    @pytest.fixture(name="folder")
    def _folder(self, tmp_path: Path) -> str:
        return self.root(tmp_path)

    def read(self, key: str) -> bytes:
        """All bytes of an object."""
        with self.make_medium().reader(key) as handle:
            found = bytearray(handle.size())
            assert handle.read(memoryview(found), 0) == len(found)
            return bytes(found)

    def names(self, folder: str) -> list[Listed]:
        """The entries of a folder, sorted."""
        return sorted(self.make_medium().entries(folder))

    # ---------------------------------------------------------------- what it is
    def test_it_is_a_medium(self) -> None:
        medium = self.make_medium()
        assert isinstance(medium, Medium)
        assert medium.name
        assert all(isinstance(flag, bool) for flag in (medium.is_local, medium.writes_ranges, medium.renames))

    def test_it_can_be_pickled(self, folder: str) -> None:
        medium = self.make_medium()
        medium.write(f"{folder}/x", [b"abc"])
        copy = pickle.loads(pickle.dumps(medium))  # noqa: S301 - our own bytes
        assert copy.status(f"{folder}/x") == medium.status(f"{folder}/x")

    # ---------------------------------------------------------------- whole objects
    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    @pytest.mark.parametrize("texts", [[b""], [b"abc"], [b"abc", b"", b"de", b"f"]], ids=["nothing", "one", "four"])
    def test_what_is_written_is_read(self, folder: str, texts: list[bytes], kind: type) -> None:
        medium, key, parts = self.make_medium(), f"{folder}/a/b/x", [kind(text) for text in texts]
        medium.write(key, parts)
        assert self.read(key) == b"".join(parts)
        with medium.reader(key) as handle:
            assert handle.key == key
            assert handle.size() == handle.status().size == medium.status(key).size == len(b"".join(parts))

    def test_a_write_leaves_nothing_of_what_was_there(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/x"
        medium.write(key, [b"longer than"])
        medium.write(key, [b"this"])
        assert self.read(key) == b"this"

    def test_a_large_object(self, folder: str) -> None:
        data = np.random.default_rng(1).integers(0, 256, (5 << 20) + 3, np.uint8)
        self.make_medium().write(f"{folder}/x", [data[:7].data, data[7:].data])
        assert self.read(f"{folder}/x") == data.tobytes()

    # ---------------------------------------------------------------- ranges
    @pytest.mark.parametrize("direct", [False, True])
    @pytest.mark.parametrize("once", [False, True])
    def test_ranges(self, folder: str, direct: bool, once: bool) -> None:  # noqa: FBT001 - parameters of pytest
        data = np.random.default_rng(2).integers(0, 256, 3 * PAGE_BYTES + 5, np.uint8)
        self.make_medium().write(f"{folder}/x", [data.data])
        with self.make_medium().reader(f"{folder}/x", direct=direct) as handle:
            for offset, size in ((0, 10), (13, 2 * PAGE_BYTES), (PAGE_BYTES, PAGE_BYTES), (data.size - 3, 3), (5, 0)):
                staging = _aligned(size + 2 * PAGE_BYTES)
                found, count = handle.read_run(staging, offset, size, once=once)
                assert (count, found.size) == (size, size)
                assert found.tobytes() == data[offset : offset + size].tobytes()
                assert np.shares_memory(found, staging) or not size

    def test_reading_ends_with_the_object(self, folder: str) -> None:
        self.make_medium().write(f"{folder}/x", [b"0123456789"])
        with self.make_medium().reader(f"{folder}/x") as handle:
            view = bytearray(b"........")
            assert handle.read(memoryview(view), 6) == 4
            assert view == b"6789...."
            assert handle.read(memoryview(view), 10) == 0
            assert handle.read(memoryview(view), 1 << 40) == 0
            assert handle.read_run(_aligned(2 * PAGE_BYTES + 8), 8, 8)[1] == 2

    def test_threads_read_from_one_handle(self, folder: str) -> None:
        data = np.random.default_rng(3).integers(0, 256, 1 << 18, np.uint8)
        self.make_medium().write(f"{folder}/x", [data.data])
        with self.make_medium().reader(f"{folder}/x") as handle, ThreadPoolExecutor(_THREADS) as threads:

            def piece(start: int) -> bool:
                found = np.empty(1 << 12, np.uint8)
                count = handle.read(found.data, start)
                return found[:count].tobytes() == data[start : start + count].tobytes() and count == found.size

            assert all(threads.map(piece, range(0, data.size, 1 << 12)))

    def test_ranges_are_written_in_any_order(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/deep/x"
        if not medium.writes_ranges:
            pytest.skip(f"{medium.name} writes whole objects only")
        with medium.writer(key) as handle:
            handle.write([b"89"], 8)
            handle.write([b"01", b"", b"23"], 0)
        assert self.read(key) == b"0123\0\0\0\x0089"
        with medium.writer(key) as handle:
            handle.write([b"4567"], 4)
        assert self.read(key) == b"0123456789"
        with medium.writer(key) as handle:
            handle.resize(12)
            assert self.read(key) == b"0123456789\0\0"
            handle.resize(3)
        assert self.read(key) == b"012"

    def test_threads_write_ranges_of_one_object(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/x"
        if not medium.writes_ranges:
            pytest.skip(f"{medium.name} writes whole objects only")
        data = np.random.default_rng(4).integers(0, 256, 1 << 16, np.uint8)

        def put(start: int) -> None:
            with medium.writer(key) as handle:
                handle.write([data[start : start + 1000].data], start)

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(put, range(0, data.size, 1000)))
        assert self.read(key) == data.tobytes()

    # ---------------------------------------------------------------- absence
    def test_absence_is_an_answer(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/nothing"

        def open_and_use() -> None:
            with medium.reader(key) as handle:
                handle.size()

        calls: list[Callable[[], Any]] = [
            open_and_use,
            lambda: medium.status(key),
            lambda: medium.status(key, follow=False),
            lambda: medium.entries(key),
        ]
        for call in calls:
            with pytest.raises(FileNotFoundError):
                call()

    def test_removing(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/x"
        medium.write(key, [b"abc"])
        medium.write(f"{folder}/y", [b"abc"])
        medium.remove(key)
        medium.remove(key)
        assert self.names(folder) == [Listed("y", FILE)]
        with pytest.raises(FileNotFoundError):
            medium.status(key)

    # ---------------------------------------------------------------- only if absent, and all or nothing
    @pytest.mark.parametrize("size", [None, 3, 10])
    def test_create(self, folder: str, size: int | None) -> None:
        medium, key = self.make_medium(), f"{folder}/x"
        medium.create(key, b"abc", size=size)
        assert self.read(key) == b"abc".ljust(size or 0, b"\0")
        before = medium.status(key)
        with pytest.raises(FileExistsError):
            medium.create(key, b"other")
        assert medium.status(key) == before
        assert self.read(key) == b"abc".ljust(size or 0, b"\0")

    def test_of_many_who_create_one_succeeds(self, folder: str) -> None:
        medium = self.make_medium()

        def attempt(job: tuple[int, int]) -> bool:
            try:
                medium.create(f"{folder}/{job[0]}", bytes([job[1]]))
            except FileExistsError:
                return False
            return True

        jobs = [(number, worker) for number in range(20) for worker in range(_THREADS)]
        with ThreadPoolExecutor(_THREADS) as threads:
            won = [job for job, done in zip(jobs, threads.map(attempt, jobs), strict=True) if done]
        assert [number for number, _ in won] == list(range(20))
        assert [self.read(f"{folder}/{number}")[0] for number, _ in won] == [worker for _, worker in won]

    def test_replace(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/x"
        medium.replace(key, b"first")
        with medium.reader(key) as handle:
            medium.replace(key, b"second, longer")
            medium.replace(key, b"third")
            found = bytearray(handle.size())
            handle.read(memoryview(found), 0)
        assert bytes(found) in (b"first", b"third")
        assert self.read(key) == b"third"
        assert self.names(folder) == [Listed("x", FILE)]

    def test_readers_find_the_old_bytes_or_the_new_ones(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/x"
        versions = [bytes([number]) * (1 + 1000 * number) for number in range(8)]
        medium.replace(key, versions[0])

        def put(number: int) -> None:
            medium.replace(key, versions[number % 8])

        def get(_: int) -> bool:
            with medium.reader(key) as handle:
                found = bytearray(handle.size())
                return handle.read(memoryview(found), 0) == len(found) and bytes(found) in versions

        with ThreadPoolExecutor(1) as writers, ThreadPoolExecutor(_THREADS) as readers:
            writing = writers.map(put, range(40))
            assert all(readers.map(get, range(200)))
            list(writing)

    # ---------------------------------------------------------------- stamps
    def test_stamps_change_with_every_write(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/x"
        writes: list[Callable[[], None]] = [
            lambda: medium.create(key, b"0123"),
            lambda: medium.write(key, [b"4567"]),
            lambda: medium.write(key, [b"4568" if self.stamps_bytes else b"4567"]),
            lambda: medium.replace(key, b"4569" if self.stamps_bytes else b"4567"),
            lambda: self._write_range(key),
        ]
        seen: list[Status] = []
        for write in writes:
            # Clocks of file systems tick a hundred times a second, or a little more often.
            time.sleep(0.02)
            write()
            found = medium.status(key)
            assert (found.size, found.kind) == (4, FILE)
            assert all(self._stamp(found) != self._stamp(before) for before in seen), f"stamp {len(seen)} was there"
            seen.append(found)
        with medium.reader(key) as handle:
            assert handle.status() == medium.status(key) == seen[-1]

    def test_another_object_has_another_identity(self, folder: str) -> None:
        medium = self.make_medium()
        medium.write(f"{folder}/x", [b"abc"])
        medium.write(f"{folder}/y", [b"abc"])
        assert self._stamp(medium.status(f"{folder}/x")) != self._stamp(medium.status(f"{folder}/y"))

    def _write_range(self, key: str) -> None:
        if self.make_medium().writes_ranges:
            with self.make_medium().writer(key) as handle:
                handle.write([b"89"], 1)
        else:
            self.make_medium().write(key, [b"4897"])

    def _stamp(self, status: Status) -> tuple[int, ...]:
        return status.identity, status.modified_ns, status.changed_ns

    # ---------------------------------------------------------------- names
    def test_names_directly_below_a_folder(self, folder: str) -> None:
        medium = self.make_medium()
        for name in ("b", "a/x", "a/y/z", "a.b", "c/0/1"):
            medium.write(f"{folder}/{name}", [b"abc"])
        here = [Listed("a", FOLDER), Listed("a.b", FILE), Listed("b", FILE), Listed("c", FOLDER)]
        assert self.names(folder) == self.names(f"{folder}/") == here
        assert self.names(f"{folder}/a") == [Listed("x", FILE), Listed("y", FOLDER)]
        assert medium.status(f"{folder}/a").kind == FOLDER
        assert medium.status(f"{folder}/a/x").kind == FILE

    def test_names_with_odd_characters(self, folder: str) -> None:
        medium, odd = self.make_medium(), ("with space", "Überblick", "per%20cent", "a?b=c&d#e", "*", "..dots..")
        for name in odd:
            medium.write(f"{folder}/{name}", [name.encode()])
        assert [name for name, _ in self.names(folder)] == sorted(odd)
        assert all(self.read(f"{folder}/{name}") == name.encode() for name in odd)

    def test_folders_are_there_before_anything_is_in_them(self, folder: str) -> None:
        medium = self.make_medium()
        medium.make_folder(f"{folder}/new")
        assert self.names(f"{folder}/new") == []
        assert self.names(folder) == [Listed("new", FOLDER)]
        assert medium.status(f"{folder}/new").kind == FOLDER
        medium.write(f"{folder}/file", [b""])
        for taken in ("new", "file"):
            with pytest.raises(FileExistsError):
                medium.make_folder(f"{folder}/{taken}")

    # ---------------------------------------------------------------- what surrounds them
    def test_everything_can_be_made_durable(self, folder: str) -> None:
        medium, keys = self.make_medium(), [f"{folder}/{number}/x" for number in range(40)]
        for key in keys:
            medium.write(key, [b"abc"])
        medium.sync(keys[0])
        medium.sync(f"{folder}/0")
        medium.sync_name(keys[0])
        medium.sync_all(keys, folder)
        medium.sync_all(keys[:2], folder)
        assert [self.read(key) for key in keys] == [b"abc"] * len(keys)

    def test_room(self, folder: str) -> None:
        medium = self.make_medium()
        medium.make_folder(f"{folder}/new")
        found = medium.room(folder)
        assert isinstance(found, Room)
        assert found.device
        assert found.device == medium.room(f"{folder}/new").device
        assert all(free is None or free >= 0 for free in (found.free_bytes, found.free_objects))

    def test_an_array_lies_inside_its_roots(self, folder: str) -> None:
        medium, key = self.make_medium(), f"{folder}/array/x"
        medium.write(key, [b"abc"])
        roots = medium.roots(f"{folder}/array")
        assert medium.status(key, roots=roots) == medium.status(key)
        with medium.reader(key, roots=roots) as handle:
            assert handle.size() == 3


def _aligned(size: int) -> Any:
    """Memory for direct transfers."""
    flat = np.empty(size + PAGE_BYTES, np.uint8)
    start = -flat.ctypes.data % PAGE_BYTES
    return flat[start : start + size]
