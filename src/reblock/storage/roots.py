"""Roots on a file system: the real path that the user named, and the other folders that they allow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reblock.errors import ExternalError, UsageError, option
from reblock.storage.media.files import disk_errors

#: The most folders whose result is cached; the oldest ones are dropped first.
_MANY_FOLDERS = 1 << 16


@dataclass(frozen=True)
class FileRoots:
    """An array's own path and the allowed folders; links may lead anywhere inside them."""

    path: str
    """The file or folder that the user named."""
    real: str
    """Its real path, since people link to their data."""
    allowed: tuple[str, ...] = ()
    """Real paths of folders that the user trusts."""
    _folders: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Real paths of folders, by path; a cache."""
    _inside: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    """Whether folders are inside the roots; a cache."""

    @classmethod
    def of(cls, path: str, allow: Sequence[str] = ()) -> FileRoots:
        """The roots of an array at a path; UsageError if an allowed folder does not exist."""
        with disk_errors("open", path):
            return cls(path.rstrip("/") or "/", os.path.realpath(path), tuple(map(_real_folder, allow)))

    def __reduce__(self) -> tuple[Any, ...]:
        return FileRoots, (self.path, self.real, self.allowed)

    def allows(self, path: str) -> bool:
        """Whether a path is inside, with links in its folders resolved but not in its last name."""
        folder, slash, _ = path.rpartition("/")
        folder = folder or slash
        inside = self._inside.get(folder)
        if inside is None:
            # A file is inside if its folder is; a root that is a single file has no folder.
            inside = self._inside[folder] = self._holds(self._real(folder))
        return inside or self._holds(os.path.join(self._real(folder), os.path.basename(path)))

    def resolve(self, path: str) -> str:
        """The real path; ExternalError if it is outside."""
        with disk_errors("open", path):
            real = os.path.realpath(path)
        if not self._holds(real):
            raise ExternalError(
                f"{path} leads to {real}, outside {self.real}: if that can be trusted, "
                f"allow it with {option('allow_external', [os.path.dirname(real)])}"
            )
        return real

    def inside(self, path: str) -> bool:
        """Whether the real path is inside."""
        return self._holds(os.path.realpath(path))

    def _holds(self, real: str) -> bool:
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in (self.real, *self.allowed))

    def _real(self, folder: str) -> str:
        """A folder's real path; below the array's own path, each name is checked once."""
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


@dataclass(frozen=True)
class KeyRoots:
    """The single object of an array in an object store, which must not lead to other objects or local files."""

    key: str
    """The URL that the user named."""

    def allows(self, path: str) -> bool:
        """Whether a key is that of the object."""
        return path == self.key

    def resolve(self, path: str) -> str:
        """The key; ExternalError for any other."""
        if path != self.key:
            raise ExternalError(
                f"{self.key} leads to {path}, and a file in an object store must not lead to others: "
                "download both, or copy the elements into one file with h5repack"
            )
        return path


def _real_folder(path: str) -> str:
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(real):
        raise UsageError(f"{option('allow_external', [path])}: there is no such folder")
    return real
