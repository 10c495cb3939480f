"""Staging: a new array is built under a hidden name beside its target, and published by one rename."""

from __future__ import annotations

import os
import shutil
import tempfile

from reblock.errors import DiskError, TargetExistsError, UsageError
from reblock.storage.files import disk_errors, sync


class Staging:
    """The hidden place where one target is built."""

    def __init__(self, target: str, *, overwrite: bool = False) -> None:
        self.target = target.rstrip("/") or "/"
        self.overwrite = overwrite
        self._folder: str | None = None

    @property
    def folder(self) -> str:
        """The hidden folder."""
        if self._folder is None:
            raise UsageError("staging has not been started")
        return self._folder

    @property
    def path(self) -> str:
        """Where to build the target."""
        return os.path.join(self.folder, os.path.basename(self.target))

    def check(self) -> None:
        """Whether the target may be made at all; touches nothing."""
        parent = os.path.dirname(self.target) or "."
        if os.path.lexists(self.target) and not self.overwrite:
            raise TargetExistsError(f"{self.target} exists: choose another name, or give --overwrite to replace it")
        if not os.path.isdir(parent):
            missing = FileNotFoundError(2, "No such file or directory")
            raise DiskError.wrap(missing, doing="the target's folder does not exist:", path=parent)
        if not os.access(parent, os.W_OK | os.X_OK):
            refused = PermissionError(13, "Permission denied")
            raise DiskError.wrap(refused, doing="the target's folder is not writable:", path=parent)

    def start(self) -> None:
        """Make the hidden folder."""
        parent, name = os.path.split(os.path.abspath(self.target))
        with disk_errors("creating a staging folder in", parent):
            self._folder = tempfile.mkdtemp(prefix=f".{name[:64]}.reblock-", dir=parent)

    def publish(self) -> None:
        """Give the finished array its name; an old one is there until the new one is."""
        path = self.path
        with disk_errors("publishing", self.target):
            if os.path.isdir(self.target) and not os.path.islink(self.target):
                os.rename(self.target, os.path.join(self.folder, "replaced"))
            elif os.path.isdir(path) and os.path.lexists(self.target):
                os.unlink(self.target)
            os.rename(path, self.target)
        sync(os.path.dirname(os.path.abspath(self.target)))
        self.discard()

    def discard(self) -> None:
        """Remove the hidden folder and all in it."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
