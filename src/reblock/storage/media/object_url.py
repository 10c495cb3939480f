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
_LOGIN = re.compile(r"^[a-z0-9]+://[^/]*@")


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
    if _LOGIN.match(key):
        raise UsageError(
            f"{clean_url(key)}: a URL must not hold a login; give it in the environment or with "
            f"{option('storage_options')}"
        )
    if key.startswith(READABLE) and re.search(r"[?#]", key):
        raise UsageError(f"{clean_url(key)}: a URL with a query or a fragment is not possible; download the file first")
    if not split_object(key)[0].partition("://")[2]:
        raise UsageError(f"{key}: the URL names no bucket")
    bucket = split_object(key)[0].partition("://")[2]
    if key.startswith(WRITABLE) and not _BUCKET.fullmatch(bucket):
        raise UsageError(
            f"{clean_url(key)}: {bucket!r} is not the name of a bucket: use letters, digits, '.', '-' and '_'"
        )
    if any(part in (".", "..", "") for part in key.partition("://")[2].rstrip("/").split("/")):
        raise UsageError(f"{key}: a URL must not contain empty parts, '.' or '..'")


def clean_url(key: str) -> str:
    """A URL for messages, without login, query and fragment."""
    return re.split(r"[?#]", re.sub(r"^([a-z0-9]+://)[^/]*@", r"\1", key))[0]


def parse_options(given: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str]]:
    """Options of the store, and of the connection."""
    store, client = dict[str, str](), dict[str, str]()
    for name, value in given.items():
        key = str(name).strip().lower()
        if not re.fullmatch(r"[a-z][a-z0-9_]*", key):
            raise UsageError(f"{option('storage_options')}: {name!r} is not the name of an option")
        (client if key in CLIENT_OPTIONS else store)[key] = str(value)
    return store, client
