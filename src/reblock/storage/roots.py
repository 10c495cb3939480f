"""Roots on a file system: what the user named, links resolved, and the folders that they allow beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reblock.errors import ExternalError, UsageError, option
from reblock.storage.media.files import disk_errors

#: Folders that are remembered; a walk over more of them forgets the first ones.
_MANY_FOLDERS = 1 << 16


@dataclass(frozen=True)
class FileRoots:
    """One array's own path and those allowed beside it; links may lead anywhere inside them."""

    path: str
    """The file or folder that the user named."""
    real: str
    """The same, links resolved: people link to their data."""
    allowed: tuple[str, ...] = ()
    """Real paths of folders that the user trusts."""
    _folders: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Real paths of folders that were asked for."""
    _inside: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    """Whether they lie inside."""

    @classmethod
    def of(cls, path: str, allow: Sequence[str] = ()) -> FileRoots:
        """The roots of an array at a path; UsageError for an allowed folder that is not there."""
        with disk_errors("open", path):
            return cls(path.rstrip("/") or "/", os.path.realpath(path), tuple(map(_real_folder, allow)))

    def __reduce__(self) -> tuple[Any, ...]:
        return FileRoots, (self.path, self.real, self.allowed)

    def allows(self, path: str) -> bool:
        """Whether a path lies inside, links in its folders resolved; the last name is taken as it is."""
        folder, slash, _ = path.rpartition("/")
        folder = folder or slash
        inside = self._inside.get(folder)
        if inside is None:
            # What lies in a folder is inside if the folder is; only a file that was named itself has none.
            inside = self._inside[folder] = self._holds(self._real(folder))
        return inside or self._holds(os.path.join(self._real(folder), os.path.basename(path)))

    def resolve(self, path: str) -> str:
        """The real path, all links resolved; ExternalError where that lies outside."""
        with disk_errors("open", path):
            real = os.path.realpath(path)
        if not self._holds(real):
            raise ExternalError(
                f"{path} leads to {real}, outside of {self.real}: if that can be trusted, "
                f"allow it with {option('allow_external', [os.path.dirname(real)])}"
            )
        return real

    def _holds(self, real: str) -> bool:
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in (self.real, *self.allowed))

    def _real(self, folder: str) -> str:
        """A folder's real path; below the array's own, each name is looked at once."""
        known = self._folders.get(folder)
        if known is None:
            if folder == self.path:
                known = self.real
            elif folder.startswith(self.path + "/") and not os.path.islink(folder):
                above, name = os.path.split(folder)
                known = os.path.join(self._real(above), name)
            else:
                known = os.path.realpath(folder)
            if len(self._folders) >= _MANY_FOLDERS:
                self._folders.clear()
                self._inside.clear()
            self._folders[folder] = known
        return known


def _real_folder(path: str) -> str:
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(real):
        raise UsageError(f"{option('allow_external', [path])}: there is no such folder")
    return real
