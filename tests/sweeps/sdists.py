"""Source distributions of other projects, fetched once by pip, for the files in their tests.

`pip download` of a source distribution builds its metadata, which takes compilers and libraries that nobody needs to
read files. So pip only finds and fetches here. This runs as a program of its own: what is inside pip may change
everything in its process.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

#: Seconds that fetching one distribution may take.
LONGEST = 300


def cache() -> Path:
    """Where distributions are kept: REBLOCK_SWEEPS, or a folder among the user's caches."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("REBLOCK_SWEEPS") or f"{caches}/reblock-sweeps").expanduser()


def unpacked(name: str) -> Path:
    """The folder of an unpacked distribution; OSError where it cannot be fetched."""
    folder = cache() / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    archive = folder.with_suffix(".tar.gz")
    done = subprocess.run(
        [sys.executable, __file__, name, archive], capture_output=True, text=True, timeout=LONGEST, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise OSError(f"pip cannot fetch the source distribution of {name}: {last}")
    partly = folder.with_suffix(f".{os.getpid()}")
    with tarfile.open(archive) as opened:
        opened.extractall(partly, filter="data")
    partly.rename(folder)
    archive.unlink()
    return folder


def _fetch(name: str, archive: str) -> None:
    """Find the newest source distribution by pip's own settings, and store it."""
    from pip._internal.commands import create_command

    command = create_command("download")
    options, _ = command.parse_args(["--no-binary", ":all:", "--no-deps", name])
    with command.main_context():
        session = command.get_default_session(options)  # type: ignore[attr-defined]
        found = command._build_package_finder(options, session).find_best_candidate(name)  # type: ignore[attr-defined]
        if found.best_candidate is None:
            sys.exit(f"no source distribution of {name} was found")
        link = found.best_candidate.link
        answer = session.get(link.url_without_fragment)
        answer.raise_for_status()
        if link.hash_name == "sha256" and hashlib.sha256(answer.content).hexdigest() != link.hash:
            sys.exit(f"{link.filename} has not the checksum that it should have")
        Path(archive).write_bytes(answer.content)


if __name__ == "__main__":
    _fetch(*sys.argv[1:])
