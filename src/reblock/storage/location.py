"""Location: where an array is, written as `PATH_OR_URL[::INNER]`."""

from __future__ import annotations

import os
from dataclasses import dataclass

from reblock.errors import UsageError
from reblock.storage.media.postgres_url import clean_key, is_database

#: A location as text or as a path.
Where = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Location:
    """A file, folder or URL, and the path of an array inside it."""

    path: str
    """File, folder or URL, as given."""
    inner: str = ""
    """Path inside the file, without slashes at its ends; empty = the file's only or topmost array."""

    def __post_init__(self) -> None:
        if not self.path:
            raise UsageError("an array is PATH[::INNER], and the path is empty")
        if "\0" in self.path + self.inner:
            raise UsageError(f"a path cannot contain a NUL character: {str(self)!r}")
        parts = [part for part in self.inner.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise UsageError(f"the inner path {self.inner!r} must not contain '..': name the array from the top")
        object.__setattr__(self, "inner", "/".join(parts))

    @classmethod
    def parse(cls, text: str | os.PathLike[str]) -> Location:
        """A location from text; `::x` and `::/x` are the same.

        Arrays of a database are separate targets, so the name belongs to the path. A login is removed from the URL.
        """
        given = os.fspath(text)
        if is_database(given):
            return cls(clean_key(given))
        path, _, inner = given.partition("::")
        return cls(path, inner)

    @property
    def is_folder(self) -> bool:
        """Whether the path ends in a slash."""
        return self.path.endswith("/")

    def __str__(self) -> str:
        return f"{self.path}::{self.inner}" if self.inner else self.path


def shown(where: Where) -> str:
    """A location for messages: as it was given, without a login."""
    given = os.fspath(where)
    return clean_key(given) if is_database(given) else given


def absolute(path: str) -> str:
    """A path from the root of the file system; a URL is complete as it is."""
    return path if "://" in path else os.path.abspath(path)
