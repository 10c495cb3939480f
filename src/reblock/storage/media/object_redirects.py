"""Redirects of object stores: none is followed to another host, and a server that begins with one is refused.

obstore follows redirects, and nothing tells it not to. But it can send all requests through a proxy, except those to
some hosts ::

    request to the store's own host          sent straight
    redirect to any other host           →   through a proxy on port 0, where nobody can listen  →  fails

So nothing reaches another host, neither the signature nor the body of a request. A redirect to another port of the same
host looks the same to obstore. Therefore the first request to an endpoint that was configured is sent by urllib3, which
stops at redirects. A server that leads to another port later is not noticed; obstore sends no signature there.

Without an endpoint, the hosts of the provider count as its own: S3 redirects between its regions. So do the hosts from
which credentials are fetched, if none are given. Where requests go through a proxy of the user, that proxy decides.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import obstore
import urllib3

from reblock.errors import ExternalError
from reblock.storage.media.http_store import open_pool
from reblock.storage.media.object_url import split_object
from reblock.storage.media.requests import NOWHERE

#: Names of options that are endpoints end like this, and variables that are.
_ENDPOINTS = ("endpoint_url", "endpoint")
_VARIABLES = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": (),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
#: How the variables of a provider begin; those that are URLs name hosts that the user trusts.
_PREFIXES = {"s3": ("AWS_",), "gs": ("GOOGLE_", "GCE_"), "az": ("AZURE_", "AZURITE_", "IDENTITY_", "MSI_")}
#: The domains of a provider.
_DOMAINS = {
    "s3": ("amazonaws.com", "amazonaws.com.cn", "api.aws"),
    "gs": ("googleapis.com", "accounts.google.com", "metadata.google.internal", "metadata"),
    "az": (
        "windows.net",
        "microsoftonline.com",
        "microsoftonline.us",
        "fabric.microsoft.com",
        "storage.azure.net",
        "chinacloudapi.cn",
        "usgovcloudapi.net",
    ),
}
#: Where machines of a provider get credentials.
_METADATA = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23")
#: Parts of the names of options and variables that are credentials.
_CREDENTIALS = {
    "s3": ("access_key_id", "skip_signature"),
    "gs": ("skip_signature",),
    "az": ("account_key", "access_key", "master_key", "sas", "token", "bearer", "skip_signature", "use_emulator"),
}
#: The most bytes of the key of a service account.
_KEY_BYTES = 1 << 16
_EMULATORS = ("127.0.0.1", "localhost")
_REDIRECTS = range(300, 400)
_PROBE = "reblock-probe"


def endpoint_of(root: str, config: Mapping[str, str]) -> str | None:
    """The endpoint that was configured for a bucket, or None."""
    return next(filter(None, endpoints_of(root, config).values()), None)


def endpoints_of(root: str, config: Mapping[str, str]) -> dict[str, str]:
    """All endpoints for a bucket that options and variables name; the first one counts."""
    given = {name: value for name, value in config.items() if name.endswith(_ENDPOINTS)}
    return given | {name: os.environ[name] for name in _VARIABLES[_scheme(root)] if name in os.environ}


def settings_of(root: str, config: Mapping[str, str]) -> dict[str, str]:
    """All options and variables for a bucket."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES[_scheme(root)])}
    return {**config, **variables}


def without_redirects(root: str, config: Mapping[str, str], client: Mapping[str, str]) -> dict[str, str]:
    """Settings of the connection under which nothing but the store's own hosts is reached."""
    if "proxy_url" in client or _goes_through_proxy(
        endpoint_of(root, config) or f"https://{_DOMAINS[_scheme(root)][0]}"
    ):
        return dict(client)
    return {**client, "proxy_url": f"http://{NOWHERE}", "proxy_excludes": ",".join(sorted(_own_hosts(root, config)))}


def _own_hosts(root: str, config: Mapping[str, str]) -> set[str]:
    scheme = _scheme(root)
    given = settings_of(root, config)
    hosts = {urlsplit(value).hostname or "" for value in _urls(given.values())} - {""}
    is_known = _has_credentials(scheme, given)
    if endpoint_of(root, config) is None or not is_known or scheme == "gs":
        hosts.update(_DOMAINS[scheme])
    if not is_known:
        hosts.update(_METADATA)
    if any("use_emulator" in name.lower() for name in given):
        hosts.update(_EMULATORS)
    return hosts


def _urls(values: Iterable[str]) -> list[str]:
    """The values that are URLs, and those in keys of service accounts, which are documents or files."""
    found = []
    for value in values:
        if value.startswith(("http://", "https://")):
            found.append(value)
        elif value.endswith(".json") or value.lstrip().startswith("{"):
            found += _urls_in_key(value)
    return found


def _urls_in_key(value: str) -> list[str]:
    try:
        if not value.lstrip().startswith("{"):
            with open(value, encoding="utf-8") as file:
                value = file.read(_KEY_BYTES)
        told = json.loads(value)
    except (OSError, ValueError):
        return []
    return [one for one in told.values() if isinstance(one, str) and one.startswith(("http://", "https://"))]


def _has_credentials(scheme: str, given: Mapping[str, str]) -> bool:
    return any(part in name.lower() and value for name, value in given.items() for part in _CREDENTIALS[scheme])


def _goes_through_proxy(url: str) -> bool:
    parts, proxies = urlsplit(url), urllib.request.getproxies()
    return any(name in proxies for name in (parts.scheme, "all")) and not urllib.request.proxy_bypass(parts.netloc)


def check_redirect(root: str, store: Any, config: Mapping[str, str], client: Mapping[str, str]) -> None:
    """Raise ExternalError if the server of an endpoint leads to another one. One that does not answer is no error."""
    endpoint = endpoint_of(root, config)
    if endpoint is None:
        return
    try:
        url = str(obstore.sign(store, "HEAD", _PROBE, timedelta(minutes=1)))
    except Exception:  # noqa: BLE001 - without credentials nothing can be signed
        url = f"{endpoint.rstrip('/')}/{quote(split_object(root)[0].partition('://')[2])}/{_PROBE}"
    pool = open_pool(url, client)
    try:
        response = pool.request("HEAD", url, redirect=False, retries=False, preload_content=False)
        response.drain_conn()
        response.close()
    except (urllib3.exceptions.HTTPError, ValueError):
        return
    finally:
        pool.clear()
    there = urlsplit(urljoin(url, response.headers.get("Location", "")))
    here = urlsplit(url)
    if response.status in _REDIRECTS and (here.scheme, here.netloc) != (there.scheme, there.netloc):
        raise ExternalError(
            f"{root}: the server {here.scheme}://{here.netloc} leads to {there.scheme}://"
            f"{there.netloc.rpartition('@')[2]}; redirects to other servers are not followed: if that one can be "
            "trusted, name it as the endpoint"
        )


def _scheme(root: str) -> str:
    return root.partition("://")[0]
