"""Staging: a new array is built out of sight of its readers, under a lock, and then published.

The medium's workspace says where, see `reblock.model.workspace`. Here are the rules that hold on every medium: what
may be replaced, and how the log is read as a journal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from reblock.errors import ReblockError, TargetExistsError, option
from reblock.model.workspace import TargetMedium, Uploader, Workspace
from reblock.runs.journal import Journal
from reblock.runs.replace import check_replaceable
from reblock.storage.media.files import disk_errors
from reblock.storage.media.registry import target_medium


class Staging:
    """The workspace of one target, and its journal; as a context manager, it holds the lock."""

    def __init__(
        self,
        target: str,
        *,
        overwrite: bool = False,
        allow: Sequence[str] = (),
        dataset: bool = False,
        changes: bool = False,
        adds: bool = False,
        single_file: bool | None = None,
        scratch: str | None = None,
    ) -> None:
        """With `overwrite`, an array is replaced, or with `dataset` also a dataset; with `changes`, a part of an array.

        A run that `adds` replaces a file by one with the same content and more.

        `allow` are folders in which parts of an array that is replaced may be. A single file is built locally, in the
        folder `scratch` if that is given, where the medium writes no ranges; None = as an unfinished run does.
        """
        self.medium = target_medium(target)
        self.workspace = _workspace_of(self.medium, target, single_file, scratch)
        self.target = self.workspace.target
        self.overwrite, self._dataset, self._changes = overwrite, dataset, changes
        self._allow = tuple(allow)
        self.adds = adds

    @property
    def building(self) -> TargetMedium:
        """The medium on which the target is built."""
        return target_medium(self.workspace.array)

    @property
    def place(self) -> str:
        """The folder in which the target is built, by its ordinary name."""
        return self.workspace.place

    @property
    def folder(self) -> str:
        """The folder of the run's own objects."""
        return self.workspace.folder

    @property
    def parent(self) -> str:
        """The folder of the target."""
        return self.workspace.parent

    @property
    def left(self) -> list[str]:
        """Names that were found here and not removed, because they are not ours."""
        return self.workspace.left

    @property
    def is_there(self) -> bool:
        """Whether a run has left anything here, or is active."""
        return self.workspace.is_there

    def rename_in(self, error: ReblockError) -> None:
        """Replace the internal path in a message by the folder's ordinary name."""
        reach, folder = self.workspace.reach, self.place
        if reach != folder:
            error.args = tuple(one.replace(reach, folder) if isinstance(one, str) else one for one in error.args)

    # ---------------------------------------------------------------- who may work here
    def check(self) -> None:
        """Raise if the target may not be made; touches nothing."""
        if self.workspace.has_target and not self._changes and not self.adds:
            if not self.overwrite:
                raise TargetExistsError(f"{self.target} exists: choose another name{self._or_overwrite()}")
            check_replaceable(self.target, self._allow, dataset=self._dataset)
        # Named as the user has typed it.
        folder = os.path.dirname(self.target) or "." if self.medium.is_local else self.parent
        self.medium.check_folder(folder, "the target's folder")

    def _or_overwrite(self) -> str:
        """Advice to overwrite a target, if it may be overwritten."""
        try:
            check_replaceable(self.target, self._allow, dataset=self._dataset)
        except ReblockError:
            return ""
        return f", or give {option('overwrite', True)} to replace it"

    def check_replaced(self) -> list[str]:
        """Check that the old target is still an array and nothing else; returns its folders on other disks."""
        if self.adds or not (self.overwrite and self.workspace.swaps):
            return []
        return check_replaceable(self.target, self._allow, dataset=self._dataset)

    def __enter__(self) -> Self:
        self.workspace.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.workspace.__exit__(kind, error, trace)

    # ---------------------------------------------------------------- the journal
    def begin_journal(self, header: dict[str, Any]) -> Journal:
        """A new journal."""
        return Journal.create(self.workspace.begin_log, header)

    def find_journal(self) -> Journal | None:
        """The journal of an earlier attempt."""
        return Journal.open(self.workspace.find_log())

    def find_done(self) -> Journal | None:
        """The journal of a finished run that was killed while removing the folder."""
        return Journal.open(self.workspace.find_done())

    @contextmanager
    def looking(self) -> Iterator[Journal | None]:
        """The journal, for reading without the lock."""
        with self.workspace.looking() as log:
            yield Journal.open(log)

    def is_published(self, journal: Journal) -> bool:
        """Whether the target is the array that a journal's run has completed."""
        complete = journal.complete()
        if bool(journal.header.get("changes")):
            return complete is not None and journal.is_installed()
        return complete is not None and self.workspace.is_published(complete["inode"])

    @staticmethod
    def is_committed(journal: Journal) -> bool:
        """Whether a change was committed and is not completed: it can only be completed."""
        return bool(journal.header.get("changes")) and journal.complete() is not None and not journal.is_installed()

    # ---------------------------------------------------------------- the end
    def publish(self) -> None:
        """Give the finished array its name; a patch has none."""
        if self._changes:
            return
        with disk_errors("publishing", self.target):
            try:
                self.workspace.publish(replace=self.overwrite or self.adds)
            except FileExistsError:
                raise TargetExistsError(
                    f"another program has made {self.target} in the meantime: move it away, "
                    f"or give {option('overwrite', True)}"
                ) from None

    def remove(self, *, finished: bool = False) -> list[str]:
        """Remove the folder and everything in it; returns what was there."""
        return self.workspace.remove(finished=finished)


def _workspace_of(medium: TargetMedium, target: str, single_file: bool | None, scratch: str | None) -> Workspace:  # noqa: FBT001
    if isinstance(medium, Uploader) and single_file is not False:
        built = medium.upload_workspace(target, scratch)
        if single_file or built.is_there:
            return built
    return medium.workspace(target)


def target_name(name: str) -> str | None:
    """Name of the target for a staging folder of this name; None if it is not such a name."""
    found = re.fullmatch(r"\.(.+)\.reblock", name, re.DOTALL)
    return found[1] if found else None
