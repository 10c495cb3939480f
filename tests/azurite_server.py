"""An Azure blob server of the tests' own: Azurite from npm, in a cache folder outside the repository."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

CONTAINER = "test"
#: The account of every Azurite; its key is public.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-12-02"


def folder() -> Path:
    """Where the server is installed."""
    beside = os.environ.get("REBLOCK_AZURITE")
    return Path(beside) if beside else Path.home() / ".cache" / "reblock-azurite"


def program(*, install: bool = False) -> str | None:
    """The server's program, which npm installs if that is wanted and possible."""
    found = folder() / "node_modules" / ".bin" / "azurite-blob"
    if not found.exists() and install and shutil.which("npm"):
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder()), "azurite@3"]
        with suppress(OSError, subprocess.SubprocessError):
            folder().mkdir(parents=True, exist_ok=True)
            subprocess.run(words, check=False, timeout=600, capture_output=True)
    return str(found) if found.exists() and shutil.which("node") else None


class AzuriteServer:
    """A server with one container."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="rbaz-", dir="/tmp")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def options(self) -> dict[str, str]:
        """Storage options that lead to it."""
        return {
            "azure_storage_account_name": ACCOUNT,
            "azure_storage_account_key": KEY,
            "azure_storage_endpoint": self.endpoint,
            "allow_http": "true",
        }

    def start(self) -> None:
        """Start it, wait until it answers, and make the container."""
        found = program()
        assert found is not None
        words = [found, "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", self.folder]
        words += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end and self._process.poll() is None:
            with suppress(OSError):
                self._make_container()
                return
            time.sleep(0.2)
        raise AssertionError("azurite did not start")

    def _make_container(self) -> None:
        date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        path = f"/{ACCOUNT}/{CONTAINER}"
        signed = [
            "PUT",
            *[""] * 11,
            f"x-ms-date:{date}",
            f"x-ms-version:{_VERSION}",
            f"/{ACCOUNT}{path}",
            "restype:container",
        ]
        mac = hmac.new(base64.b64decode(KEY), "\n".join(signed).encode(), hashlib.sha256).digest()
        fields = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}",
            "Content-Length": "0",
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}?restype=container", method="PUT", headers=fields
        )
        try:
            with urllib.request.urlopen(request, timeout=10):
                pass
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise AssertionError(error.read().decode()) from None

    def remove(self) -> None:
        """Stop it, and remove its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
