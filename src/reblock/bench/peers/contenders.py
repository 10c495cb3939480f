"""Who races, what each can do, and the environments that peers are installed into."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reblock.bench.peers.workloads import Workload
from reblock.errors import DiskError, UsageError

#: Told what is being done.
Tell = Callable[[str], None]

#: What says that an environment is complete, and what was asked for.
_STAMP = "reblock-peer.json"


@dataclass(frozen=True)
class Contender:
    """One that can do some of the workloads."""

    name: str
    """What it is called."""
    module: str
    """Module of `reblock.bench.peers.scripts` that runs it."""
    targets: tuple[str, ...]
    """Formats that it writes."""
    distributions: tuple[str, ...] = ()
    """What to report the versions of."""
    packages: tuple[str, ...] = ()
    """What its own environment is made of; nothing for what reblock itself needs."""
    program: str | None = None
    """A program that has to be there."""
    debian: str | None = None
    """The Debian package that has the program."""
    zarr: str = "zarr"
    """The zarr format that it reads and writes."""
    shards: bool = True
    """Whether it writes shards."""
    copies: bool = False
    """Whether it leaves the chunks as they are."""

    def unable(self, workload: Workload) -> str | None:
        """Why it cannot do a workload; None if it can."""
        if workload.target_format not in self.targets:
            return f"does not write {workload.target_format}"
        if workload.shards and not self.shards:
            return "does not write shards"
        return None


_ZARR = ("zarr",)
_ALL = ("zarr", "hdf5")

#: All of them; reblock is first.
CONTENDERS = (
    Contender("reblock", "reblock", _ALL, ("reblock",)),
    Contender("cp", "tools", _ALL, program="cp", debian="coreutils", copies=True),
    Contender("zarr-python", "zarr_python", _ZARR, ("zarr",)),
    Contender("zarrs", "zarrs", _ZARR, ("zarrs", "zarr"), ("zarrs", "zarr>=3.1")),
    Contender("tensorstore", "tensorstore", _ZARR, ("tensorstore",), ("tensorstore",)),
    Contender("dask", "dask", _ZARR, ("dask", "zarr"), ("dask[array,distributed]", "zarr>=3.1")),
    Contender("dask-p2p", "dask_p2p", _ZARR, ("distributed", "zarr"), ("dask[array,distributed]", "zarr>=3.1")),
    Contender(
        "rechunker", "rechunker", _ZARR, ("rechunker", "zarr"), ("rechunker", "zarr<3"), zarr="zarr2", shards=False
    ),
    Contender("cubed", "cubed", _ZARR, ("cubed", "zarr"), ("cubed", "zarr>=3.1")),
    Contender("h5py", "h5py", ("hdf5",), ("h5py",)),
    Contender("h5repack", "tools", ("hdf5",), program="h5repack", debian="hdf5-tools"),
    Contender("nccopy", "tools", ("hdf5",), program="nccopy", debian="netcdf-bin"),
)


def find_contenders(names: str | Sequence[str] | None) -> tuple[Contender, ...]:
    """Contenders by name, in their own order; all of them where none is named. reblock always races."""
    if names is None:
        return CONTENDERS
    parts = [part.strip() for part in (names.split(",") if isinstance(names, str) else names)]
    known = {contender.name for contender in CONTENDERS}
    for part in parts:
        if part not in known:
            raise UsageError(f"there is no contender {part!r}: choose among {', '.join(sorted(known))}")
    return tuple(contender for contender in CONTENDERS if contender.name in {"reblock", *parts})


def default_folder() -> str:
    """Where environments are kept: the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "reblock", "peers")


@dataclass(frozen=True)
class Place:
    """Where a contender runs."""

    python: str
    """Interpreter that runs its module."""
    missing: str | None = None
    """Why it cannot, if it cannot."""


def find_place(contender: Contender, folder: str, tell: Tell) -> Place:
    """Where a contender runs; its environment is made where it has one and that is not there yet."""
    if contender.program and shutil.which(contender.program) is None:
        return Place("", f"{contender.program} is not on the path (Debian has it in {contender.debian})")
    if not contender.packages:
        return Place(sys.executable)
    # Contenders of the same packages share an environment.
    same = next(one for one in CONTENDERS if one.packages == contender.packages)
    home = os.path.join(folder, same.name)
    python = os.path.join(home, "bin", "python")
    if _complete(home, contender):
        return Place(python)
    tell(f"{contender.name}: installing {', '.join(contender.packages)} into {home}")
    return Place(python, _install(home, python, contender))


def _wanted(contender: Contender) -> dict[str, object]:
    return {"packages": list(contender.packages), "python": list(sys.version_info[:2])}


def _complete(home: str, contender: Contender) -> bool:
    try:
        with open(os.path.join(home, _STAMP), encoding="utf-8") as file:
            return bool(json.load(file) == _wanted(contender))
    except (OSError, ValueError):
        return False


def _install(home: str, python: str, contender: Contender) -> str | None:
    """Make an environment; why that failed, if it did."""
    if os.path.lexists(home) and not os.path.exists(os.path.join(home, "pyvenv.cfg")):
        raise UsageError(f"{home} exists and is no environment: choose another folder with --peers-dir")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-qq", "install", *contender.packages]
    for words in ([sys.executable, "-m", "venv", "--clear", home], pip):
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - words of ours
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            return f"could not be installed: {lines[-1] if lines else 'no reason given'}"
    try:
        with open(os.path.join(home, _STAMP), "w", encoding="utf-8") as file:
            json.dump(_wanted(contender), file)
    except OSError as error:
        raise DiskError.wrap(error, doing="writing", path=home) from error
    return None
