"""Making replicas: copies for the classes of an access pattern, each by an ordinary run that can be resumed.

The first attempt records which copies it makes, and each copy from which array; the same command continues it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from reblock.api.advice import advise
from reblock.api.array import Array, open_array
from reblock.api.devices import AUTO_DEVICE
from reblock.api.job import Job
from reblock.api.planning import plan_array
from reblock.api.replicas.changing import changing
from reblock.api.replicas.record import (
    GENERATIONS,
    RECORD,
    ReplicaCopy,
    ReplicaSet,
    copy_path,
    generation_path,
    is_there,
    lock_path,
    metadata_hash,
)
from reblock.api.request import AccessGiven
from reblock.api.running import run
from reblock.cost import PRESETS
from reblock.errors import ChangedError, TargetExistsError, UnfinishedError, UsageError, option
from reblock.model import AccessPattern
from reblock.runs.meter import Progress
from reblock.storage.location import Where, absolute
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, is_folder, read_whole
from reblock.units import format_size, parse_size

#: What an unfinished attempt has decided, below the folder.
_DRAFT = os.path.join(".reblock", "draft.json")
#: Copies unless a number is given.
USUAL_COPIES = 2

#: Called with the number of a copy, before it is made; returns the listener of its progress.
Listener = Callable[[int, Job], Progress | None]


def create_replicas(
    source: Where | Array,
    folder: Where,
    *,
    access: AccessGiven | None = None,
    log: Where | None = None,
    copies: int = USUAL_COPIES,
    budget_bytes: str | int | None = None,
    codec: str | None = None,
    memory: str | int | None = None,
    block_size: str | int | None = None,
    device: str = AUTO_DEVICE,
    begins: Listener = lambda _number, _job: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> ReplicaSet:
    """Make copies of an array, each with chunks for some of its accesses; every chunk has a checksum.

    With `budget_bytes`, as many copies are made as fit into it before encoding. The same call continues an attempt that
    was interrupted.

    Examples
    --------
    >>> import numpy, os, reblock, tempfile
    >>> folder = os.path.join(tempfile.mkdtemp(), "copies")
    >>> made = reblock.create_replicas(numpy.zeros((60, 40, 40)), folder, access="time-series,maps", device="nvme")
    >>> len(made.copies)
    2
    >>> reblock.open(f"replicas:{folder}")[:, 5, 7].shape
    (60,)
    """
    path, array = os.fspath(folder), open_array(source, None, ())
    if access is None and log is None:
        raise UsageError(f"replicas are made for accesses: give {option('access')} or {option('log')}")
    if is_there(path):
        raise TargetExistsError(f"{path} holds replicas already: choose another folder, or update them")
    count = _affordable(array, copies, budget_bytes)
    asked = {"source": absolute(array.store.location), "access": _text(access, log), "copies": count, "codec": codec}
    if exists(LOCAL, path):
        _check_ours(path)
    else:
        LOCAL.make_folder(path)
    with changing(path):
        draft = _read_draft(path, asked)
        if draft is None:
            advice = advise(
                array,
                access=access,
                log=log,
                copies=count,
                block_size=block_size,
                device=device,
                memory=memory,
                to_format="zarr",
            )
            chosen = advice.copies or ()
            made = [{"chunks": list(one.chunks), "classes": list(one.names)} for one in chosen]
            draft = {**asked, "made": made or [{"chunks": list(advice.best.chunks or ()), "classes": []}]}
            LOCAL.replace(os.path.join(path, _DRAFT), json.dumps(draft).encode())
        record = _make_all(array, path, draft, codec, memory, device, begins, cancelled)
        record.write()
        LOCAL.remove(os.path.join(path, _DRAFT))
    return record


def _affordable(array: Array, copies: int, budget_bytes: str | int | None) -> int:
    if copies < 1:
        raise UsageError(f"the number of copies must be at least 1, not {copies}")
    if budget_bytes is None:
        return copies
    budget = parse_size(budget_bytes)
    if budget < array.nbytes:
        raise UsageError(
            f"a copy takes {format_size(array.nbytes)} before encoding, and {option('budget_bytes')} is "
            f"{format_size(budget)}: there is no room for one copy"
        )
    return min(copies, budget // max(array.nbytes, 1))


def _text(access: AccessGiven | None, log: Where | None) -> str:
    if isinstance(access, AccessPattern):
        return repr(access.classes)
    if isinstance(access, Mapping):
        return json.dumps(access, sort_keys=True)
    return f"log {os.fspath(log)}" if log is not None else os.fspath(access or "")


def _check_ours(path: str) -> None:
    """Raise TargetExistsError if a folder has contents that are not those of an unfinished attempt."""
    names = {name for name, _ in LOCAL.entries(path)} if is_folder(LOCAL, path) else {"it is not a folder"}
    strange = names - {".reblock", GENERATIONS, f".{RECORD}.draft"}
    if strange or (names and not exists(LOCAL, os.path.join(path, ".reblock"))):
        raise TargetExistsError(f"{path} exists and is not a folder of replicas ({', '.join(sorted(names)[:3])})")


def _read_draft(path: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    where = os.path.join(path, _DRAFT)
    if not exists(LOCAL, where):
        return None
    draft: dict[str, Any] = json.loads(read_whole(LOCAL, where, limit_bytes=1 << 20))
    other = [key for key, value in asked.items() if draft.get(key) != value]
    if other:
        raise UnfinishedError(
            f"{path} holds an unfinished attempt with another {', '.join(other)}: repeat the command that began it, "
            "or remove the folder"
        )
    return draft


def _make_all(
    array: Array,
    path: str,
    draft: dict[str, Any],
    codec: str | None,
    memory: str | int | None,
    device: str,
    begins: Listener,
    cancelled: Callable[[], bool],
) -> ReplicaSet:
    folder = generation_path(path, 1)
    if not exists(LOCAL, lock_path(path, 1)):
        LOCAL.write(lock_path(path, 1), [b""])
    copies, digests = list[ReplicaCopy](), []
    for number, one in enumerate(draft["made"]):
        target = os.path.join(folder, f"{number}.zarr")
        origins = [array, *(open_array(os.path.join(path, made.path), None, ()) for made in copies)]
        options = {"chunks": one["chunks"], "codec": codec, "memory": memory, "device": device, "checksum": True}
        if "origin" in one:
            job = plan_array(origins[one["origin"]], target, **options)
        else:
            jobs = [plan_array(origin, target, **options) for origin in origins]
            one["origin"] = min(range(len(jobs)), key=lambda origin: jobs[origin].cost.seconds)
            job = jobs[one["origin"]]
            # The next attempt must continue this run, whatever it thinks of speeds.
            LOCAL.replace(os.path.join(path, _DRAFT), json.dumps(draft).encode())
        report = run(job, exist_ok=True, progress=begins(number, job), cancelled=cancelled)
        digests.append(report.digest)
        place = copy_path(1, number)
        chunks = tuple(int(n) for n in open_array(target, None, ()).chunks if isinstance(n, int))
        copies.append(ReplicaCopy(place, chunks, tuple(one["classes"]), metadata_hash(target)))
    if len(set(digests)) > 1:
        raise ChangedError(f"{array.store.location} changed between two copies: remove {path} and begin again")
    LOCAL.sync(folder)
    LOCAL.sync(os.path.join(path, GENERATIONS))
    name = device if device in PRESETS else AUTO_DEVICE
    return ReplicaSet(
        path,
        1,
        array.shape,
        open_array(os.path.join(path, copies[0].path), None, ()).dtype.str,
        digests[0],
        array.store.location,
        name,
        tuple(copies),
    )
