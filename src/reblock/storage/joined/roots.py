"""Roots of an array that consists of many: those of the member that a file belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reblock.errors import ExternalError
from reblock.model.roots import Roots


@dataclass(frozen=True)
class JoinedRoots:
    """The roots of all members, by the path of the member."""

    members: Mapping[str, Roots]
    """Roots by file or folder."""
    allowed: tuple[str, ...] = ()
    """Other folders that the user trusts, as given."""

    def allows(self, path: str) -> bool:
        """Whether a path is inside the roots of its member."""
        found = self._find(path)
        return found is not None and found.allows(path)

    def resolve(self, path: str) -> str:
        """The real path; ExternalError if it is outside."""
        found = self._find(path) or next(iter(self.members.values()), None)
        if found is None:
            raise ExternalError(f"{path} is outside of all arrays that are joined")
        return found.resolve(path)

    def _find(self, path: str) -> Roots | None:
        here = path
        while here:
            if here in self.members:
                return self.members[here]
            here = here.rpartition("/")[0]
        return None
