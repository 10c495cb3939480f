"""A PostgreSQL server of the tests' own: data and socket in a temporary folder, started as a user without rights."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path


def programs() -> str | None:
    """The folder of the server's programs; Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found:
        return os.path.dirname(os.path.realpath(found))
    versions = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda name: int(name.split("/")[4]))
    return os.path.dirname(versions[-1]) if versions else None


def _children(parent: int) -> list[int]:
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        with suppress(OSError):
            text = Path(path).read_text()
            if int(text.rpartition(")")[2].split()[1]) == parent:
                found.append(int(text.split()[0]))
    return found


class Server:
    """A server that can be killed and started again."""

    def __init__(self, folder: str) -> None:
        """Sets up the data below a folder with a short name, which the server's user owns."""
        found = programs()
        assert found is not None
        self._bin, self.folder = found, folder
        self._user: dict[str, object] = {}
        if os.geteuid() == 0:
            names = [one.pw_name for one in pwd.getpwall()]
            name = "postgres" if "postgres" in names else "nobody"
            one = pwd.getpwnam(name)
            os.chown(folder, one.pw_uid, one.pw_gid)
            self._user = {"user": one.pw_uid, "group": one.pw_gid, "extra_groups": []}
        self.data = os.path.join(folder, "data")
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", self.data, "-U", "reblock", "--auth=trust", "-N", "-E", "UTF8", "--no-locale")

    @property
    def url(self) -> str:
        """The URL of the database, with the user whom the tests are."""
        return f"postgresql://reblock@/postgres?host={self.folder}"

    @property
    def shown(self) -> str:
        """The same as it is shown."""
        return f"postgresql:///postgres?host={self.folder}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [f"{self._bin}/postgres", "-D", self.data, "-c", "listen_addresses=", "-c", "fsync=off"]
        command += ["-c", f"unix_socket_directories={self.folder}", "-c", "shared_buffers=16MB"]
        log = open(os.path.join(self.folder, "log"), "ab")  # noqa: SIM115 - closed below
        for _ in range(50):
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", start_new_session=True, **self._user
            )
            end = time.monotonic() + 30
            while self._process.poll() is None and time.monotonic() < end:
                ready = [f"{self._bin}/pg_isready", "-q", "-h", self.folder, "-d", "postgres"]
                if subprocess.run(ready, check=False).returncode == 0:
                    log.close()
                    return
                time.sleep(0.02)
            # Processes of a killed server may still be ending.
            self._process.kill()
            self._process.wait()
            time.sleep(0.1)
        log.close()
        raise AssertionError(Path(self.folder, "log").read_text()[-2000:])

    def kill(self) -> None:
        """End all of its processes at once, as a power failure would."""
        assert self._process is not None
        some = [self._process.pid, *_children(self._process.pid)]
        for one in some:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)

    def _run(self, program: str, *arguments: str) -> None:
        result = subprocess.run(
            [f"{self._bin}/{program}", *arguments], capture_output=True, check=False, cwd="/", **self._user
        )
        assert result.returncode == 0, result.stderr.decode()


def new_folder() -> str:
    """A folder with a name that is short enough for a socket."""
    return tempfile.mkdtemp(prefix="rbpg-", dir="/tmp")
