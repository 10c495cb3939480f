"""Scratch: intermediate arrays of plans with several passes, as folders of headerless blocks.

A block is removed as soon as everything made of it is durable: removing takes time, and the space is needed ::

    blocks        │ 0 │ 1 │ 2 │ 3 │     durable: box 0      → block 0 is removed; box 1 needs block 1 too
    write boxes   │  0  │  1  │  2│     durable: boxes 0, 1 → blocks 1 and 2 are removed as well
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from reblock.errors import DiskError, UsageError
from reblock.geometry import Grid
from reblock.geometry.grid import Cut
from reblock.model import Plan, Schema, Store
from reblock.model.workspace import Folder, TargetMedium
from reblock.runs.group_commit import ArrayLedger, destination_of
from reblock.runs.journal import Integers
from reblock.runs.numbers import Numbers
from reblock.storage import registry
from reblock.storage.location import absolute
from reblock.storage.media.registry import medium_of, target_medium

_FORMAT = "rawblocks"
_KEPT_NAME = re.compile(r"\.reblock-scratch-[0-9a-f]{16}")
#: The most boxes that are tracked, so that tracking takes little memory; with more, blocks are removed at the end.
_MANY_BOXES = 1 << 17
#: Numbers of arrays that workers make for themselves start here; those of passes are smaller.
_FIRST_SPARE = 10**17


class KeptScratch:
    """Intermediate arrays that outlive the run, so that another attempt can use them."""

    def __init__(self, plan: Plan, folder: str, ledger: ArrayLedger, *, target_folder: str | None = None) -> None:
        """`target_folder` holds the arrays that the plan keeps in the target's space; None = `folder` holds all."""
        self._plan = plan
        self.folder = folder
        self._private: Folder | None = None
        self._target_folder = target_folder if plan.scratch_in_target and target_folder != folder else None
        self._in_target: Folder | None = None
        self._ledger = ledger
        self._found: dict[int, Store] = {}
        self._spent: dict[int, Spent] = {}

    def __enter__(self) -> Self:
        if self._plan.scratch:
            self._private = _make_private(self.folder)
            self.folder = self._private.reach
            if self._target_folder is not None:
                self._in_target = _make_private(self._target_folder)
        return self

    def _private_of(self, number: int) -> Folder | None:
        """The folder that holds one array."""
        return self._in_target if self._in_target is not None and self._plan.in_target(number) else self._private

    def folder_of(self, number: int) -> str:
        """Path of the folder that holds one array."""
        private = self._private_of(number)
        return self.folder if private is None else private.reach

    def path(self, number: int) -> str:
        """Path of one array."""
        return os.path.join(self.folder_of(number), str(number))

    def abroad(self, number: int) -> tuple[Store, str, str]:
        """One array as other processes reach it, its folder, and the same folder as this process reaches it."""
        private = self._private_of(number)
        folder = self.folder if private is None else absolute(private.path)
        path, schema = os.path.join(folder, str(number)), scratch_schema(self._plan, number)
        store = registry.get(_FORMAT).reopen(path, "", schema, medium=medium_of(path))
        return store, folder, self.folder_of(number)

    @property
    def outside(self) -> str:
        """The folder as other processes reach it."""
        return self.folder if self._private is None else absolute(self._private.path)

    def check_place(self) -> None:
        """Raise StorageError if the folder was moved or replaced."""
        for private in filter(None, (self._private, self._in_target)):
            private.check_place()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep everything for the next attempt; it is removed with the staging folder."""
        for spent in self._spent.values():
            spent.close()
        for private in filter(None, (self._private, self._in_target)):
            private.close()

    def reopen(self, number: int) -> Store:
        """Reopen an array that an earlier attempt has begun; StorageError if that is impossible."""
        path, schema = self.path(number), scratch_schema(self._plan, number)
        self._found[number] = registry.get(_FORMAT).reopen(path, "", schema, medium=medium_of(path))
        return self._found[number]

    def make(self, number: int) -> Store:
        """The reopened array, or a new one."""
        store = self._found.get(number)
        if store is None:
            self._remove(number)
            store = make_scratch(self._plan, number, self.path(number))
        if not self._plan.interleaved:
            # Interleaved passes reuse the same array for every task: only their result counts.
            side = destination_of(store, self._plan.passes[number], self.folder_of(number))
            self._ledger.watch(number, side)
            if side.alone and are_few(self._plan, number):
                made, finished = self._plan.passes[number + 1].writes, self._ledger.finished(number + 1)
                spent = self._spent[number] = Spent(store, made, finished, side.medium)
                self._ledger.listen(number + 1, spent)
        return store

    def drop(self, number: int) -> None:
        """Remove an array, once the journal says that everything made of it is durable."""
        if not self._plan.interleaved:
            self._ledger.drop(number)
        self._found.pop(number, None)
        if number in self._spent:
            self._spent.pop(number).close()
        self._remove(number)

    def _remove(self, number: int) -> None:
        private = self._private_of(number)
        if private is not None:
            private.remove(str(number))


class SpareScratch:
    """Intermediate arrays of one task of interleaved passes, which a worker makes and removes."""

    def __init__(self, plan: Plan, folder: str) -> None:
        """Their names are numbers, like all names in the folder, and no two workers choose the same."""
        self._plan, self._folder = plan, folder
        self._made: dict[int, str] = {}

    def make(self, number: int) -> Store:
        """A new array."""
        self._made[number] = os.path.join(self._folder, str(_FIRST_SPARE + secrets.randbelow(_FIRST_SPARE)))
        return make_scratch(self._plan, number, self._made[number])

    def drop(self, number: int) -> None:
        """Remove an array."""
        path = self._made.pop(number)
        target_medium(path).remove_folder(path)


class Spent:
    """Removes the blocks of an intermediate array that are no longer needed, in a thread of its own."""

    def __init__(self, store: Store, writes: Grid, finished: Numbers, medium: TargetMedium) -> None:
        """`writes` are the boxes that are made of the array, some of which were finished before."""
        self._store, self._writes = store, writes
        self._unfinished = unfinished(writes, finished)
        self._left = self._needed()
        self._medium = medium
        self._remover = ThreadPoolExecutor(1, "reblock-remove")

    def __call__(self, boxes: Integers) -> None:
        """Report boxes that have become durable."""
        self._unfinished.reshape(-1)[boxes] = False
        needed = self._needed()
        gone, self._left = np.argwhere(self._left & ~needed), needed
        if gone.size:
            paths = [self._store.place(tuple(index)).path for index in gone.tolist()]
            with suppress(RuntimeError):  # closed meanwhile
                self._remover.submit(remove_files, self._medium, paths)

    def close(self) -> None:
        """Stop removing; remaining blocks are left."""
        self._remover.shutdown(cancel_futures=True)

    def _needed(self) -> npt.NDArray[np.bool_]:
        return self._store.layout.objects.meeting(self._writes, self._unfinished)


def are_few(plan: Plan, number: int) -> bool:
    """Whether an intermediate array's blocks, and the boxes made of them, are few enough to be tracked."""
    return max(made.writes.count for made in plan.passes[number : number + 2]) <= _MANY_BOXES


def unfinished(writes: Grid, finished: Numbers) -> npt.NDArray[np.bool_]:
    """Boxes of a pass that are not finished, by index."""
    found = np.ones(writes.count, bool)
    for start, stop in finished.ranges():
        found[start:stop] = False
    return found.reshape(writes.counts)


def remove_files(medium: TargetMedium, paths: Sequence[str]) -> None:
    """Remove objects in one of our folders, if they exist.

    An object that cannot be removed now is tried again, and reported, when the whole folder is removed.
    """
    for path in paths:
        with suppress(DiskError):
            try:
                medium.remove(path)
            except DiskError:
                medium.remove_folder(path)  # someone has put a folder into its place


def kept_folder(target: str, parent: str) -> str:
    """The folder below `parent` for the intermediate arrays of a target."""
    name = hashlib.blake2b(os.fsencode(absolute(target)), digest_size=8).hexdigest()
    return os.path.join(absolute(parent), f".reblock-scratch-{name}")


def remove_kept(path: str) -> bool:
    """Remove a folder of intermediate arrays; returns whether it existed. Other contents are left."""
    folder = target_medium(path).private_folder(path)
    if folder is None:
        return False
    try:
        for name in folder.names():
            if name.isascii() and name.isdecimal():
                folder.remove(name)
        if not folder.remove_itself() and (left := folder.names()):
            raise UsageError(f"{path}: {', '.join(left[:3])} was not made by reblock, and is not removed")
    finally:
        folder.close()
    return True


def is_kept_folder(path: str) -> bool:
    """Whether a path is that of a folder of intermediate arrays."""
    return absolute(path) == path and _KEPT_NAME.fullmatch(os.path.basename(path)) is not None


def _make_private(path: str) -> Folder:
    """A folder of ours, made if it does not exist."""
    folder = target_medium(path).private_folder(path, make=True)
    if folder is None:
        raise UsageError(f"{path} cannot be made")
    return folder


def make_scratch(plan: Plan, number: int, path: str) -> Store:
    """A fresh, empty intermediate array at a path."""
    return registry.get(_FORMAT).create(path, "", scratch_schema(plan, number), medium=medium_of(path))


def scratch_schema(plan: Plan, number: int) -> Schema:
    """The schema of an intermediate array."""
    layout = plan.scratch[number]
    cuts: list[Cut] = [axis.step or tuple(axis.lengths()) or 1 for axis in layout.objects.axes]
    return Schema(layout.shape, layout.dtype, tuple(cuts), order=layout.order)
