"""The race: contenders run in rounds on the same arrays with the same memory.

Every run starts with a source that is not in the page cache and ends after a sync. Contenders alternate, so that other
load on the machine affects all of them; the first round warms up memory and storage and is not timed. ::

    round 0   reblock  cp  zarrs  …        checked, not timed
    round 1   cp  zarrs  …  reblock        checked and timed
    round 2   zarrs  …  reblock  cp

"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any

from reblock.bench.files import check_result_file
from reblock.bench.notify import Notify, silent
from reblock.bench.peers.contenders import Contender, Environment, default_folder, find_contenders, find_environment
from reblock.bench.peers.results import Entry, RaceResult, machine
from reblock.bench.peers.run import RaceRun, clear, make_source, remove, run_once, source_path
from reblock.bench.peers.workloads import Workload, find_workloads
from reblock.errors import DiskError, UsageError
from reblock.storage.location import Where
from reblock.units import format_seconds, format_size

__all__ = ["REPEAT", "RaceResult", "check_output", "document", "race"]

#: Default number of timed rounds.
REPEAT = 3
#: Name of the subfolder for sources and outputs.
_FOLDER = "reblock-peers"
#: Disk space that a workload needs, in arrays: two sources, an output, and intermediate arrays of some contenders.
_ARRAYS = 4


def race(
    workloads: Sequence[str] = (),
    *,
    only: str | Sequence[str] | None = None,
    repeat: int = REPEAT,
    scale: int = 1,
    folder: str | os.PathLike[str],
    peers: str | os.PathLike[str] | None = None,
    keep: bool = False,
    notify: Notify = silent,
) -> Generator[RaceResult]:
    """Race the contenders; yields one result per workload.

    Sources and outputs are created in `folder` and removed again; with `keep`, sources stay for the next race.
    Peers are installed below `peers` when they are first needed.
    """
    if repeat < 1:
        raise UsageError(f"at least one round must be timed, not {repeat}")
    wanted = [workload.scaled(scale) for workload in find_workloads(workloads)]
    racing = find_contenders(only)
    here = os.path.join(os.path.abspath(os.fspath(folder)), _FOLDER)
    home = default_folder() if peers is None else os.path.abspath(os.fspath(peers))
    return _race(wanted, racing, repeat, here, home, keep, notify)


def _race(
    workloads: list[Workload],
    contenders: tuple[Contender, ...],
    repeat: int,
    folder: str,
    home: str,
    keep: bool,  # noqa: FBT001 - passed on from a keyword
    notify: Notify,
) -> Generator[RaceResult]:
    made: set[str] = set()
    try:
        os.makedirs(folder, exist_ok=True)
        environments = _find_environments(workloads, contenders, home, notify)
        for done, workload in enumerate(workloads, 1):
            _check_free_space(workload, folder)
            for contender, path in _sources([workload], contenders, folder):
                if not os.path.lexists(path):
                    notify(f"{workload.name}: making {format_size(workload.nbytes)} of {os.path.basename(path)}")
                    make_source(workload, contender.zarr, folder)
                    made.add(path)
            yield _run_rounds(workload, contenders, environments, repeat, folder, notify)
            needed = {path for _, path in _sources(workloads[done:], contenders, folder)}
            _discard(made - needed, keep=keep)
            made &= needed
    except OSError as error:
        raise DiskError.wrap(error, doing="racing in", path=folder) from error
    finally:
        _discard(made, keep=keep)
        with suppress(OSError):
            clear(folder)
            os.rmdir(folder)


def _find_environments(
    workloads: list[Workload], contenders: tuple[Contender, ...], home: str, notify: Notify
) -> dict[str, Environment]:
    """The environment of each contender that can run at least one workload; the others are not installed."""
    return {
        contender.name: find_environment(contender, home, notify)
        for contender in contenders
        if not all(contender.unable(workload) for workload in workloads)
    }


def _check_free_space(workload: Workload, folder: str) -> None:
    free, needed = shutil.disk_usage(folder).free, _ARRAYS * workload.nbytes
    if free < needed:
        raise UsageError(
            f"{workload.name} needs {format_size(needed)} and {folder} has {format_size(free)} free: "
            "choose another folder with --dir, or --scale"
        )


def _sources(workloads: list[Workload], contenders: tuple[Contender, ...], folder: str) -> list[tuple[Contender, str]]:
    """Paths of the workloads' sources, each with a contender that reads it."""
    found = {
        source_path(workload, contender.zarr, folder): contender
        for workload in workloads
        for contender in contenders
        if contender.unable(workload) is None
    }
    return [(contender, path) for path, contender in found.items()]


def _discard(paths: set[str], *, keep: bool) -> None:
    for path in paths:
        if not keep:
            remove(path)


def _run_rounds(
    workload: Workload,
    contenders: tuple[Contender, ...],
    environments: dict[str, Environment],
    repeat: int,
    folder: str,
    notify: Notify,
) -> RaceResult:
    able = [contender for contender in contenders if contender.unable(workload) is None]
    present = [contender for contender in able if not environments[contender.name].missing]
    runs: dict[str, list[RaceRun]] = {contender.name: [] for contender in able}
    for turn in range(repeat + 1):
        first = turn % len(present)
        for contender in [*present[first:], *present[:first]]:
            if any(run.failed for run in runs[contender.name]):
                continue
            run = run_once(contender, environments[contender.name].python, workload, folder)
            runs[contender.name].append(run)
            what = run.failed or f"{format_seconds(run.seconds)}, peak {format_size(run.peak_bytes)}"
            notify(f"{workload.name}: round {turn} of {repeat}: {contender.name}: {what}")
    entries = (Entry(one.name, tuple(runs[one.name]), environments[one.name].missing) for one in able)
    return RaceResult(workload, tuple(entries))


# ---------------------------------------------------------------- documents
def document(
    results: Sequence[RaceResult], folder: str | os.PathLike[str], *, scale: int, repeat: int
) -> dict[str, Any]:
    """The JSON document: results and a description of the machine."""
    return {
        "machine": machine(os.fspath(folder)),
        "scale": scale,
        "repeat": repeat,
        "workloads": [result.to_json() for result in results],
        "failures": sum(result.failures for result in results),
        "bars_missed": sum(result.bar_met is False for result in results),
    }


def check_output(path: Where) -> None:
    """Refuse an output file that would overwrite anything but an earlier result."""
    check_result_file(path, _is_result, "the result of a race")


def _is_result(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return "bars_missed" in json.load(file)
    except (OSError, ValueError, TypeError):
        return False
