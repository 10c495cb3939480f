"""URLs of object stores: which there are, and what in them must not be shown or stored."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reblock.errors import UsageError, option

#: Object stores that are read and written, and servers that are only read.
WRITABLE, READABLE = ("s3://", "gs://", "az://"), ("http://", "https://")
#: The beginnings of all URLs of object stores.
SCHEMES = (*WRITABLE, *READABLE)
#: Names of storage options that are settings of the connection, not of the store.
CLIENT_OPTIONS = ("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url", "user_agent")
#: Names of buckets, and of Azure's containers.
_BUCKET = re.compile(r"[$A-Za-z0-9][A-Za-z0-9._-]*")
#: Names of servers, which may have a port; in a text, punctuation may follow.
_SERVER = re.compile(r"(\[[0-9a-fA-F:.%]*\]|[^:@\[\]]*)(:[0-9]*)?[^\w@]*")
#: What follows the path of a URL: of keys, only what looks like settings, because they may have question marks.
_REST, _REST_OF_KEY = re.compile(r"[?#].*", re.DOTALL), re.compile(r"\?[^/=]*=.*", re.DOTALL)
#: URLs in a text.
_URLS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


def is_object(key: str) -> bool:
    """Whether a key is the URL of an object store."""
    return key.startswith(SCHEMES)


def split_object(key: str) -> tuple[str, str]:
    """The URL of the bucket, container or server, and the path in it.

    >>> split_object("s3://bucket/a/b.zarr")
    ('s3://bucket', 'a/b.zarr')
    """
    scheme, _, rest = key.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path.strip("/")


def check_url(key: str) -> None:
    """Raise UsageError for a URL that holds a login or a query, or that names no bucket."""
    if _has_login(key):
        raise UsageError(
            f"{clean_url(key)}: a URL must not hold a login; give it in the environment or with "
            f"{option('storage_options')}"
        )
    if key.startswith(READABLE) and _REST.search(key):
        raise UsageError(f"{clean_url(key)}: a URL with a query or a fragment is not possible; download the file first")
    if _REST_OF_KEY.search(key):
        raise UsageError(
            f"{clean_url(key)}: a URL with a query is not possible; give a token in the environment or with "
            f"{option('storage_options')}"
        )
    bucket = split_object(key)[0].partition("://")[2]
    if not bucket:
        raise UsageError(f"{key}: the URL names no bucket")
    if key.startswith(WRITABLE) and not _BUCKET.fullmatch(bucket):
        raise UsageError(
            f"{clean_url(key)}: {bucket!r} is not the name of a bucket: use letters, digits, '.', '-' and '_'"
        )
    parts = key.partition("://")[2].rstrip("/").split("/")
    if any(part in (".", "..", "") for part in parts):
        raise UsageError(f"{key}: a URL must not contain empty parts, '.' or '..'")
    if "\\" in key or not key.isprintable():
        # Some servers read a backslash as a slash: the objects would have other keys.
        raise UsageError(f"{key}: a URL must not contain a backslash, a line break or a tab")


def _has_login(key: str) -> bool:
    """Whether a URL has a login; a password may have slashes, so any colon but that before a port counts."""
    server = key.partition("://")[2].partition("/")[0]
    if key.startswith(WRITABLE):
        return re.search("[@:]", server) is not None
    return not _SERVER.fullmatch(_REST.sub("", server))


def clean_url(key: str) -> str:
    """A URL for messages, without login, query and fragment.

    >>> clean_url("https://me:secret@host:8080/x.npy?signature=abc")
    'https://host:8080/x.npy'
    """
    scheme, mark, rest = key.partition("://")
    if not mark:
        return key
    if _has_login(key):
        server, slash, path = rest.partition("/")
        if "@" in server:
            rest = f"{server.rpartition('@')[2]}{slash}{path}"
        else:
            rest = rest.rpartition("@")[2] if "@" in rest else "…"
    return f"{scheme}://{(_REST_OF_KEY if key.startswith(WRITABLE) else _REST).sub('', rest)}"


def clean_text(text: str) -> str:
    """A text in which all URLs are those for messages."""
    return _URLS.sub(lambda found: clean_url(found[0]), text)


def parse_options(given: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str]]:
    """Options of the store, and of the connection."""
    store, client = dict[str, str](), dict[str, str]()
    for name, value in given.items():
        key = str(name).strip().lower()
        if not re.fullmatch(r"[a-z][a-z0-9_]*", key):
            raise UsageError(f"{option('storage_options')}: {name!r} is not the name of an option")
        (client if key in CLIENT_OPTIONS else store)[key] = str(value)
    return store, client
