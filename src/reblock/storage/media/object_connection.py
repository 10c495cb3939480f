"""The connection to one bucket: its store, and how requests to it are sent."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar

import obstore

from reblock.errors import DiskError, ExternalError
from reblock.storage.media.http_store import HttpLibrary
from reblock.storage.media.object_redirects import check_redirect
from reblock.storage.media.object_store import open_store
from reblock.storage.media.object_url import READABLE, parse_options
from reblock.storage.media.requests import MAX_FIRST_SECONDS, MAX_SECONDS, MAX_URGENT_SECONDS, Gate, send

_Result = TypeVar("_Result")


class Connection:
    """A bucket, container or server, and the requests to it."""

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        self.name = root
        self.lists = not root.startswith(READABLE)
        self.library: Any = obstore if self.lists else HttpLibrary(root, options)
        self.store: Any = open_store(root, options) if self.lists else None
        self.gate, self._urgent = Gate(), Gate()
        self._options = options
        self._is_there, self._is_checked = False, not self.lists
        self._checking = Lock()

    def send(self, key: str, doing: str, request: Callable[[], _Result], *, urgent: bool = False) -> _Result:
        """The result of a request; FileNotFoundError only if the bucket exists.

        An urgent one does not wait until others are answered, and is given up soon.
        """
        if not self._is_checked:
            self._check_redirect()
        gate, seconds = (self._urgent, MAX_URGENT_SECONDS) if urgent else (self.gate, MAX_SECONDS)
        try:
            result = send(gate, key, doing, request, seconds, None if self._is_there else MAX_FIRST_SECONDS)
        except FileNotFoundError:
            self.check_bucket()
            raise
        except DiskError as error:
            if error.errno == errno.EACCES:
                # Unlike the response to a look at an object, that to a listing says why.
                self.check_bucket()
            raise
        except ExternalError:
            if self.lists:
                # The library does not tell where a redirect leads.
                self._check_redirect(again=True)
            raise
        self._is_there = True
        return result

    def _check_redirect(self, *, again: bool = False) -> None:
        """Raise ExternalError if the server leads to another one."""
        with self._checking:
            if again or not self._is_checked:
                check_redirect(self.name, self.store, *parse_options(self._options))
                self._is_checked = True

    def check_bucket(self) -> None:
        """Raise DiskError if there is no such bucket: a missing object in it would count as fill."""
        if not self._is_there and self.lists:
            send(self.gate, self.name, "open", lambda: obstore.list_with_delimiter(self.store, "reblock-probe/"))
            self._is_there = True
