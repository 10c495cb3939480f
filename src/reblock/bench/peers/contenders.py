"""Contenders: which formats each can write, and the environment that each runs in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from reblock.bench.notify import Notify
from reblock.bench.peers.workloads import Workload
from reblock.errors import DiskError, UsageError

#: The contender that measures the physical limit.
LIMIT = "limit"
#: File that marks an environment as complete and names its packages.
_STAMP = "reblock-peer.json"


@dataclass(frozen=True)
class Contender:
    """A tool that can run some of the workloads."""

    name: str
    """Its name on the command line and in results."""
    module: str
    """Module of `reblock.bench.peers.scripts` that runs it."""
    targets: tuple[str, ...]
    """Formats that it writes."""
    distributions: tuple[str, ...] = ()
    """Distributions whose versions are reported."""
    packages: tuple[str, ...] = ()
    """Requirements of its own environment; empty if it runs in reblock's."""
    program: str | None = None
    """Program that must be on the path."""
    debian: str | None = None
    """Debian package that contains the program."""
    zarr: str = "zarr"
    """Zarr format that it reads and writes."""
    shards: bool = True
    """Whether it writes shards."""
    copies: bool = False
    """Whether it copies the source without changing its chunks."""
    sources: tuple[str, ...] = ("zarr", "npy", "hdf5")
    """Formats that it reads."""
    codecs: tuple[str, ...] | None = None
    """Codecs that it writes to datasets in Zarr; None for all."""
    measures: bool = False
    """Whether it measures a limit and makes no output."""

    def unable(self, workload: Workload) -> str | None:
        """Reason why it cannot run a workload; None if it can."""
        if self.measures and workload.bar.limit_factor is None:
            return "the bar has no physical limit"
        if workload.source_format not in self.sources:
            return f"does not read {workload.source_format}"
        if workload.target_format not in self.targets:
            return f"does not write {workload.target_format}"
        if workload.shards and not self.shards:
            return "does not write shards"
        if self.codecs is not None and workload.target_format == "zarrgroup":
            wanted = workload.target_codec or workload.codec
            return None if wanted in self.codecs else f"does not write {wanted}"
        return None


_ZARR = ("zarr",)
_ALL = ("zarr", "hdf5")
_VOLUMES = ("nifti", "niblocks")
_DATASETS = ("zarrgroup", "netcdf")
_SOURCES = ("zarr", "npy", "hdf5", "netcdf", "tiffs", *_VOLUMES)

#: All contenders, reblock first.
CONTENDERS = (
    Contender("reblock", "reblock", (*_ALL, *_VOLUMES, *_DATASETS), ("reblock",), sources=_SOURCES),
    Contender(LIMIT, "limit", (*_ALL, *_VOLUMES, *_DATASETS), ("reblock",), measures=True, sources=_SOURCES),
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
    Contender("nibabel", "nibabel", _VOLUMES, ("nibabel",), sources=_VOLUMES),
    Contender("xarray", "xarray", ("zarrgroup",), ("xarray", "dask"), sources=("netcdf",)),
    Contender("tifffile", "tifffile", _ZARR, ("tifffile", "zarr"), sources=("tiffs",)),
    Contender(
        "nccopy",
        "tools",
        ("hdf5", *_DATASETS),
        program="nccopy",
        debian="netcdf-bin",
        sources=("hdf5", "netcdf"),
        codecs=("none",),
    ),
)


def find_contenders(names: str | Sequence[str] | None) -> tuple[Contender, ...]:
    """Find contenders by name, in the order of CONTENDERS; all without names. reblock always takes part."""
    if names is None:
        return CONTENDERS
    parts = [part.strip() for part in (names.split(",") if isinstance(names, str) else names)]
    known = {contender.name for contender in CONTENDERS}
    for part in parts:
        if part not in known:
            raise UsageError(f"there is no contender {part!r}: choose among {', '.join(sorted(known))}")
    return tuple(contender for contender in CONTENDERS if contender.name in {"reblock", *parts})


def default_folder() -> str:
    """Folder of the environments, in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "reblock", "peers")


@dataclass(frozen=True)
class Environment:
    """The Python environment that a contender runs in."""

    python: str
    """Path of the interpreter."""
    missing: str | None = None
    """Reason why the contender cannot run; None if it can."""


def find_environment(contender: Contender, folder: str, notify: Notify) -> Environment:
    """Find a contender's environment; create it if the contender needs its own and it does not exist yet."""
    if contender.program and shutil.which(contender.program) is None:
        return Environment("", f"{contender.program} is not on the path (Debian has it in {contender.debian})")
    if not contender.packages:
        return Environment(sys.executable)
    # Contenders with the same requirements share an environment.
    same = next(one for one in CONTENDERS if one.packages == contender.packages)
    home = os.path.join(folder, same.name)
    python = os.path.join(home, "bin", "python")
    if _is_complete(home, contender):
        return Environment(python)
    notify(f"{contender.name}: installing {', '.join(contender.packages)} into {home}")
    return Environment(python, _install(home, python, contender))


def _requirements(contender: Contender) -> dict[str, object]:
    return {"packages": list(contender.packages), "python": list(sys.version_info[:2])}


def _is_complete(home: str, contender: Contender) -> bool:
    try:
        with open(os.path.join(home, _STAMP), encoding="utf-8") as file:
            return bool(json.load(file) == _requirements(contender))
    except (OSError, ValueError):
        return False


def _install(home: str, python: str, contender: Contender) -> str | None:
    """Create an environment; returns the reason if that failed."""
    if os.path.lexists(home) and not os.path.exists(os.path.join(home, "pyvenv.cfg")):
        raise UsageError(f"{home} exists and is not an environment: choose another folder with --peers-dir")
    for words in _install_commands(home, python, contender):
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - our own command
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            return f"could not be installed: {lines[-1] if lines else 'no reason given'}"
    try:
        with open(os.path.join(home, _STAMP), "w", encoding="utf-8") as file:
            json.dump(_requirements(contender), file)
    except OSError as error:
        raise DiskError.wrap(error, doing="writing", path=home) from error
    return None


def _install_commands(home: str, python: str, contender: Contender) -> tuple[list[str], list[str]]:
    """Commands that create an environment and fill it; our own pip is used where there is one, which saves seconds."""
    options = ["--disable-pip-version-check", "-qq", "install", *contender.packages]
    venv = [sys.executable, "-m", "venv", "--clear"]
    if find_spec("pip") is None:
        return [*venv, home], [python, "-m", "pip", *options]
    return [*venv, "--without-pip", home], [sys.executable, "-m", "pip", "--python", python, *options]
