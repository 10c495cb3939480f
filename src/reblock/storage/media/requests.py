"""Requests to object stores: how many run at once, which failures are tried again, and what an error says.

The number of requests at once begins small, grows by one with every few successes, and is halved when the server says
that it is too busy: once for all requests that were under way at that moment. A failure that may pass is tried again
after a random time that doubles, unless the run is to stop meanwhile. All requests that are sent here can be repeated:
whole objects are written under one key, and conditional writes carry a mark of their own.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable
from threading import Condition
from typing import TypeVar

from reblock.errors import DiskError, ExternalError, ReblockError
from reblock.storage.media.object_url import clean_text, clean_url
from reblock.storage.media.patience import pause, sending

#: Requests at once: at first, and at most.
_FIRST, MAX_REQUESTS = 4, 64
#: Successes after which one more request may run.
_GROW_AFTER = 2
#: How long a failing request is tried again, also before the server has ever answered; the shortest and longest pause.
MAX_SECONDS, MAX_FIRST_SECONDS, MAX_URGENT_SECONDS = 60.0, 3.0, 5.0
_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_ANY_CASE = re.IGNORECASE
#: Status codes of failures that may pass, and those by which a server says that it is too busy.
_PASSING, _BUSY = (408, 409, 425, 429, 500, 502, 503, 504), (429, 503)

_REDIRECTS = (301, 302, 303, 307, 308)
#: The address of the proxy of all hosts that are not the store's own: nobody can listen on port 0.
NOWHERE = "127.0.0.1:0"

#: What the library says about a failed connection, and what it means.
_TROUBLES = (
    (r"connection ?refused", "connection refused, is the endpoint right?"),
    (r"dns error|name resolution|lookup address|Name or service not known", "its name is unknown"),
    (r"certificate|InvalidContentType|tls|ssl", "no secure connection is possible"),
    (r"timed? ?out|timeout", "it took too long"),
    (r"unreachable", "there is no route to it"),
)

#: The library's exception for its own mistakes, which is no Exception.
_PANIC = "PanicException"

_Result = TypeVar("_Result")


class RequestError(Exception):
    """A failed request; its text has the status code, or says that there was no response."""


class Gate:
    """Limits the number of requests at once; the limit follows what the server can take."""

    def __init__(self) -> None:
        self._state = Condition()
        self._running = self._successes = 0
        self._halved = 0.0
        self.limit = _FIRST
        self.sent = 0
        """Requests so far."""

    def __enter__(self) -> None:
        with self._state:
            while self._running >= self.limit:
                self._state.wait()
            self._running += 1
            self.sent += 1

    def __exit__(self, *_: object) -> None:
        with self._state:
            self._running -= 1
            self._state.notify()

    def succeeded(self) -> None:
        """Count a success; after some, one more request may run."""
        with self._state:
            self._successes += 1
            if self._successes >= _GROW_AFTER and self.limit < MAX_REQUESTS:
                self._successes, self.limit = 0, self.limit + 1
                self._state.notify()

    def too_busy(self, sent: float) -> None:
        """Halve the limit, unless it was halved after the request was sent: one moment of trouble counts once."""
        with self._state:
            if sent >= self._halved:
                self._successes, self.limit, self._halved = 0, max(self.limit // 2, 1), time.monotonic()


def send(
    gate: Gate,
    key: str,
    doing: str,
    request: Callable[[], _Result],
    seconds: float = MAX_SECONDS,
    silent_seconds: float | None = None,
) -> _Result:
    """The result of a request, which is repeated for some seconds while its failure may pass.

    A server that does not answer at all may have less time.

    FileNotFoundError is an answer, and so is FileExistsError, which means that a condition was not met: another object
    is there. Every other failure is a DiskError.
    """
    began, wait, sent = time.monotonic(), _PAUSE, 0.0
    while True:
        try:
            with gate, sending():
                sent = time.monotonic()
                result = request()
        except ReblockError:
            raise
        except BaseException as error:  # the library's classes say little, see `answer`
            if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                raise
            code = status_code(error)
            if is_redirect(error, code):
                raise _redirected(key) from None
            if not may_pass(error, code):
                raise answer(error, key, doing) from None
            if code in _BUSY:
                gate.too_busy(sent)
            most = seconds if code or silent_seconds is None else silent_seconds
            spread = wait * random.uniform(0.5, 1.5)  # noqa: S311 - spreads requests, protects nothing
            if time.monotonic() - began + wait > most or not pause(spread):
                raise answer(error, key, doing) from None
            wait = min(2 * wait, _LONGEST_PAUSE)
        else:
            gate.succeeded()
            return result


def status_code(error: BaseException) -> int:
    """The status code of a response, or 0 if there was none."""
    found = re.search(r"status code: (\d{3})", str(error))
    return int(found[1]) if found else 0


def is_redirect(error: BaseException, code: int) -> bool:
    """Whether a server leads elsewhere: the library does not follow, or finds the proxy that leads nowhere."""
    return code in _REDIRECTS or re.search(rf"tcp connect error\W+{re.escape(NOWHERE)}\W", str(error)) is not None


def _redirected(key: str) -> ExternalError:
    return ExternalError(
        f"{clean_url(key)}: the server leads to another one; redirects to other servers are not followed: if that one "
        "can be trusted, name it as the endpoint, or set its region"
    )


def may_pass(error: BaseException, code: int) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, ConnectionResetError):
        return True
    if type(error).__name__ not in ("GenericError", "RequestError"):
        return False
    return code in _PASSING or (code == 0 and _is_transport(str(error)))


def _is_transport(text: str) -> bool:
    """Whether a failure is one of the connection, not of settings."""
    return (
        re.search(r"sending request|HTTP error|time.?out|connection|body|decod|reset|closed", text, _ANY_CASE)
        is not None
    )


def answer(error: BaseException, key: str, doing: str) -> BaseException:
    """What a failed request means: an absence, a conflict, or an error in one line without secrets."""
    kind, code = type(error).__name__, status_code(error)
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
    if kind in ("AlreadyExistsError", "PreconditionError", "FileExistsError") or code == 412:
        return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), key)
    number = errno.EIO
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or code in (401, 403):
        number = errno.EACCES
    elif code == 404 or isinstance(error, FileNotFoundError):
        # The bucket is missing, not the object.
        number = errno.ENXIO
    return DiskError.wrap(OSError(number, _reason(error, code)), doing=doing, path=clean_url(key))


def _reason(error: BaseException, code: int) -> str:
    """What the server said, or what the library says, in one line."""
    text = str(error)
    if type(error).__name__ == _PANIC:
        return "the client of object stores has failed: check its settings"
    said = [re.search(rf"<{tag}>([^<]{{1,300}})</{tag}>", text) for tag in ("Code", "Message")]
    words = ": ".join(one[1] for one in said if one)
    if code in (401, 403) and not words:
        words = "access denied: check the credentials and the clock"
    if words or code:
        return f"the server answered {code or 'with an error'}{f' ({words})' if words else ''}"
    if where := re.search(r"https?://[^/\s?#]+", clean_text(text)):
        why = next((words for sign, words in _TROUBLES if re.search(sign, text, _ANY_CASE)), "")
        if why:
            return f"{where[0].rstrip(':')} does not answer: {why}"
    # Requests may be signed in their query.
    first = clean_text(text.partition("Debug source")[0])
    return re.sub(r"\?\S*", "", " ".join(first.split()))[:300] or type(error).__name__
