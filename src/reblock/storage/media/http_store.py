"""Files on web servers, behind the few functions of obstore that reading needs, with redirects under control.

obstore follows every redirect. A server must not redirect us to another one, which may be inside our own network, so
requests are sent by urllib3, and only redirects to the same host and port are followed.

Not every server checks conditions. So the validator of each response is compared with that of the first one: the ETag,
or else the time of the last change.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import urllib3

from reblock.errors import ExternalError, StorageError
from reblock.storage.media.object_url import parse_options
from reblock.storage.media.requests import RequestError

#: The most redirects inside a server.
_MANY_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_MISSING, _REFUSED, _OTHER_OBJECT, _RANGE_AFTER_END = (404, 410), (401, 403), 412, 416
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 60.0
#: Characters of a path that stand for themselves; a path may be quoted already.
_PLAIN = "/%:@!$&'()*+,;=~"


class HttpBody:
    """A response whose body is read on demand."""

    def __init__(self, response: Any, meta: dict[str, Any]) -> None:
        self._response = response
        self.meta = meta
        self.attributes: dict[str, str] = {}

    def stream(self, min_chunk_size: int) -> Iterator[bytes]:
        """The parts of the body."""
        try:
            yield from self._response.stream(min_chunk_size, decode_content=False)
            self._response.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise RequestError(f"the connection was lost: {error}") from None
        finally:
            self._response.close()

    def __del__(self) -> None:
        # The body was not needed.
        self._response.close()


class HttpLibrary:
    """Requests to one server, under the names that obstore has for them."""

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        self._root = root
        client = parse_options(options)[1]
        self._headers = {"Accept-Encoding": "identity", "User-Agent": client.get("user_agent", "reblock")}
        self._pool = open_pool(root, client)

    def head(self, store: object, path: str) -> dict[str, Any]:  # noqa: ARG002 - as in obstore
        """Size and validator of a file."""
        response = self._request("HEAD", path, {})
        # Read to the end, though there is no body: if the server closes the connection, a socket would stay open.
        response.drain_conn()
        response.release_conn()
        return self._meta(response, path)

    def get(self, store: object, path: str, *, options: Mapping[str, Any] | None = None) -> HttpBody:  # noqa: ARG002
        """A file, or a range of it that has not changed."""
        headers = {}
        start, stop = (options or {}).get("range", (0, None))
        expected = (options or {}).get("if_match")
        if stop is not None:
            headers["Range"] = f"bytes={start}-{stop - 1}"
        if expected is not None and expected.startswith('"'):
            headers["If-Match"] = expected  # a weak one never matches
        response = self._request("GET", path, headers)
        meta = self._meta(response, path)
        try:
            self._check_part(response, meta, path, start, stop, expected)
        except BaseException:
            response.close()
            raise
        return HttpBody(response, meta)

    def _check_part(
        self, response: Any, meta: Mapping[str, Any], path: str, start: int, stop: int | None, expected: str | None
    ) -> None:
        """Refuse another file, or other bytes than were requested."""
        if expected is not None and meta["e_tag"] != expected:
            raise FileExistsError(f"{self._root}/{path} has changed")
        if stop is not None and response.status != 206:
            if (start, stop) != (0, meta["size"]):
                raise StorageError(
                    f"{self._root}/{path}: the server does not serve parts of files, it sends the whole: "
                    "download the file first"
                )
        elif stop is not None and not _is_range(response, start, stop):
            raise StorageError(
                f"{self._root}/{path}: the server did not send bytes {start:,} to {stop:,}: "
                f"{response.headers.get('Content-Range')!r}"
            )

    def _request(self, method: str, path: str, headers: Mapping[str, str]) -> Any:
        """The response after redirects; raises if the request fails."""
        url = f"{self._root}/{quote(path, safe=_PLAIN)}"
        for _ in range(_MANY_REDIRECTS + 1):
            try:
                response = self._pool.request(
                    method,
                    url,
                    headers={**self._headers, **headers},
                    preload_content=False,
                    redirect=False,
                    retries=False,
                )
            except urllib3.exceptions.HTTPError as error:
                raise RequestError(f"error sending request to {self._root}: {_innermost(error)}") from None
            if response.status not in _REDIRECTS:
                break
            there = urljoin(url, response.headers.get("Location", ""))
            response.close()
            self._check_same_host(path, there)
            url = there
        else:
            raise StorageError(f"{self._root}/{path}: more than {_MANY_REDIRECTS} redirects")
        if response.status in (200, 206):
            return response
        response.close()
        if response.status in _MISSING:
            raise FileNotFoundError(path)
        if response.status == _OTHER_OBJECT:
            raise FileExistsError(path)
        raise RequestError(f"the server answered with status code: {response.status}")

    def _check_same_host(self, path: str, there: str) -> None:
        one, other = urlsplit(self._root), urlsplit(there)
        if (one.scheme, one.netloc) != (other.scheme, other.netloc):
            raise ExternalError(
                f"{self._root}/{path}: the server leads to {other.scheme}://{other.netloc.rpartition('@')[2]}; "
                "redirects to other servers are not followed: if that one can be trusted, name it in the URL"
            )

    def _meta(self, response: Any, path: str) -> dict[str, Any]:
        """The facts that obstore gives about an object."""
        headers = response.headers
        total = re.fullmatch(r"bytes [0-9]+-[0-9]+/([0-9]+)", headers.get("Content-Range", ""))
        size = total[1] if total else headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,18}", size) or headers.get("Content-Encoding", "identity") != "identity":
            response.close()
            raise StorageError(
                f"{self._root}/{path}: the server does not tell the size of the file: download the file first"
            )
        changed = headers.get("Last-Modified", "")
        try:
            modified = parsedate_to_datetime(changed)
        except (ValueError, TypeError):
            modified = datetime.fromtimestamp(0, UTC)
        tag = headers.get("ETag") or f"changed {changed} {size}"
        return {"path": path, "size": int(size), "e_tag": tag, "last_modified": modified}


def open_pool(url: str, client: Mapping[str, str]) -> Any:
    """Connections to a server, with the settings of obstore, and through the same proxy."""
    more: dict[str, Any] = {
        "timeout": urllib3.Timeout(
            connect=_seconds(client.get("connect_timeout"), _CONNECT_SECONDS),
            read=_seconds(client.get("timeout"), _READ_SECONDS),
        )
    }
    if client.get("allow_invalid_certificates", "").lower() == "true":
        more["cert_reqs"] = "CERT_NONE"
    parts = urlsplit(url)
    proxy = client.get("proxy_url") or urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.netloc):
        return urllib3.ProxyManager(proxy, maxsize=64, **more)
    return urllib3.PoolManager(maxsize=64, **more)


def _is_range(response: Any, start: int, stop: int) -> bool:
    return re.match(rf"bytes {start}-{stop - 1}/", response.headers.get("Content-Range", "")) is not None


def _innermost(error: BaseException) -> str:
    """The reason of a failed connection, without the objects that failed."""
    reason = getattr(error, "reason", None)
    return " ".join(str(reason or error).rpartition(">: ")[2].split())[:200] or type(error).__name__


def _seconds(text: str | None, usual: float) -> float:
    """Seconds of a duration such as `30s`."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|min)?", (text or "").strip())
    if not found:
        return usual
    return float(found[1]) * {"ms": 0.001, "m": 60.0, "min": 60.0}.get(found[2], 1.0)
