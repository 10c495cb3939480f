"""Stores of obstore: how they are opened, and how their listings continue after a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import obstore

from reblock.errors import UsageError
from reblock.storage.media.object_redirects import endpoint_of, endpoints_of, settings_of, without_redirects
from reblock.storage.media.object_url import parse_options

_CLIENT = {"connect_timeout": "10s", "timeout": "600s"}
#: How settings begin that are whole documents, such as the key of a service account.
_DOCUMENTS = ("{", "-----BEGIN")
_RETRIES: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}


class Pages:
    """Pages of a listing. After a failure it begins again behind the last page: the library's own would just end."""

    def __init__(self, store: Any, prefix: str | None, most: int, after: str | None = None) -> None:
        self._list = partial(obstore.list, store, prefix, chunk_size=most)
        self._pages: Iterator[Any] | None = None
        self._last = after

    def next(self) -> Sequence[Any]:
        """The next page; an empty one at the end."""
        if self._pages is None:
            self._pages = iter(self._list(offset=self._last))
        try:
            page: Sequence[Any] = next(self._pages, ())
        except BaseException:
            self._pages = None
            raise
        if page:
            self._last = str(page[-1]["path"])
        return page


def open_store(root: str, options: Mapping[str, str]) -> Any:
    """A store of obstore."""
    config, client = parse_options(options)
    endpoint = endpoint_of(root, config)
    _check_settings(root, config, client)
    if (endpoint or "").startswith("http://"):
        client.setdefault("allow_http", "true")
    try:
        client_options: Any = {**_CLIENT, **without_redirects(root, config, client)}
        settings: dict[str, Any] = {"client_options": client_options, "retry_config": _RETRIES, "config": config}
        return obstore.store.from_url(root, **settings)
    except Exception as error:  # noqa: BLE001 - the library has several kinds for wrong settings
        words = str(error).partition("Debug source")[0]
        for value in (*config.values(), *client.values()):
            words = words.replace(f'"{value}"', "its value")
        raise UsageError(f"{root}: cannot be connected: {' '.join(words.split())[:300]}") from None


def _check_settings(root: str, config: Mapping[str, str], client: Mapping[str, str]) -> None:
    """UsageError for settings with which the library panics, or which it sends as they are."""
    servers = endpoints_of(root, config) | {name: client[name] for name in client if name == "proxy_url"}
    for name, url in servers.items():
        if not _is_server(url):
            raise UsageError(f"{root}: {name} must be http://HOST[:PORT] or https://HOST[:PORT]")
    for name, value in {**settings_of(root, config), **client}.items():
        if not value.isprintable() and not value.lstrip().startswith(_DOCUMENTS):
            raise UsageError(f"{root}: {name} has a line break, or another character that cannot be sent")


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_right and url.isascii() and url.isprintable() and " " not in url
