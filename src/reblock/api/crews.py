"""Crews: worker processes of this machine, a Dask cluster, or any executor that the caller has."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context, parent_process
from threading import Thread
from time import monotonic, sleep
from typing import Any, NamedTuple

from reblock.api.dask_crew import DaskExecutor, check_memory, label_of
from reblock.api.job import Job
from reblock.api.machine import cores, machine_bytes
from reblock.engine import Crew
from reblock.engine.pipeline.share import this_host
from reblock.engine.pipeline.tether import TETHER_SECONDS, listen_to, shield
from reblock.engine.watch import Cancelled
from reblock.errors import DiskError, StorageError, UsageError, option
from reblock.planner import price, share
from reblock.storage.location import absolute
from reblock.storage.media.object_url import clean_url
from reblock.storage.media.patience import is_stuck
from reblock.storage.media.registry import medium_of
from reblock.units import format_size

#: Seconds within which a scheduler must answer.
_TIMEOUT_SECONDS = 5
#: The most bytes of the first message of a scheduler.
_GREETING_BYTES = 1 << 20
#: How long workers may take to say what they see.
_ANSWER_SECONDS = 120
#: The most workers of this machine.
MAX_WORKERS = 256
#: The most files that a worker must find.
_MOST_PATHS = 64
#: How long a request may hold up the end of a worker process.
_GRACE_SECONDS = 5.0
#: Memory that a worker takes beside the budget of a task.
_BESIDES_BYTES = 16 << 20


def shared_job(job: Job, crew: Crew) -> Job:
    """The job with enough tasks for a crew, and with as many threads as its workers have cores."""
    decision = job.decision
    problem = decision.problem
    if crew.cores is not None and crew.cores != problem.cores:
        problem = replace(problem, cores=crew.cores)
    plan = share(decision.plan, problem, crew.workers)
    if plan is decision.plan:
        return job
    return replace(job, decision=price(plan, problem, objective=decision.objective))


@contextmanager
def open_crew(executor: Any = None, workers: int | None = None, cluster: str | None = None) -> Iterator[Crew | None]:
    """The crew that a caller asks for; None = this process works alone."""
    every = ("executor", executor), ("workers", workers), ("cluster", cluster)
    given = [name for name, one in every if one is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(map(option, given))}: give one of them")
    with ExitStack() as opened:
        if workers is not None:
            yield _processes(opened, workers)
        elif cluster is not None:
            yield _dask_crew(*opened.enter_context(_client(cluster)))
        elif executor is None:
            yield None
        elif isinstance(executor, Executor):
            yield Crew(executor, _count(executor))
        elif type(executor).__module__.partition(".")[0] == "distributed":
            yield _dask_crew(executor)
        else:
            raise UsageError(f"executor is a Dask Client or a concurrent.futures.Executor, not {executor!r}")


def _count(executor: Executor) -> int:
    """Workers of an executor; the threads of one process share its memory, and are one worker."""
    if isinstance(executor, ThreadPoolExecutor):
        return 1
    found = getattr(executor, "num_workers", None) or getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    return max(int(found), 1)


def _processes(opened: ExitStack, workers: int) -> Crew:
    if not 1 <= workers <= MAX_WORKERS:
        raise UsageError(f"{option('workers', workers)}: use 1 to {MAX_WORKERS} worker processes")
    made: list[ProcessPoolExecutor] = []
    # A fork would copy locks that other threads hold.
    context = get_context("spawn")
    # Without a lock, because a worker that is killed would keep it.
    stopped = context.RawValue("b", 0)

    def renew(_cancelled: Cancelled = lambda: False) -> Executor:
        for one in made:
            # Wait until none of them writes any more, because others will do the same work.
            one.shutdown(cancel_futures=True)
        made[:] = [ProcessPoolExecutor(workers, mp_context=context, initializer=begin_worker, initargs=(stopped,))]
        return made[0]

    def end() -> None:
        for one in made:
            one.shutdown(cancel_futures=True)

    def halt(_: str) -> None:
        stopped.value = 1

    opened.callback(end)
    return Crew(renew(), workers, renew, max(cores() // workers, 1), halt=halt)


def begin_worker(stopped: ctypes.c_byte) -> None:
    """What a worker process of our own does first."""
    shield()
    listen_to(lambda: bool(stopped.value))
    Thread(target=_end_in_time, args=(stopped,), name="reblock-caller", daemon=True).start()


def _end_in_time(stopped: ctypes.c_byte) -> None:
    """End this process with the one that began the run, even if that is killed: nobody waits for its work.

    End it also if the run is to stop, and a request to a server that does not answer holds that up.
    """
    caller, told = parent_process(), None
    while caller is None or caller.is_alive():
        sleep(TETHER_SECONDS)
        if stopped.value:
            told = told or monotonic()
            if is_stuck(told, _GRACE_SECONDS):
                break
    os._exit(1)


# ---------------------------------------------------------------- Dask
@contextmanager
def _client(cluster: str) -> Iterator[tuple[Any, Callable[[], Any] | None, Callable[[], object]]]:
    """A client, a function that makes another one, and one that starts workers again."""
    if find_spec("distributed") is None:
        raise UsageError(f"{option('cluster')} needs the module distributed: pip install 'reblock[dask]'")
    distributed = import_module("distributed")
    if cluster.startswith("local:"):
        count = cluster.removeprefix("local:")
        if not (count.isascii() and count.isdecimal()) or not 1 <= int(count) <= MAX_WORKERS:
            raise UsageError(f"{option('cluster', cluster)}: use local:N with N from 1 to {MAX_WORKERS}")
        threads = max(cores() // int(count), 1)
        with (
            distributed.LocalCluster(n_workers=int(count), threads_per_worker=threads, dashboard_address=":0") as made,
            distributed.Client(made) as client,
        ):
            client.run(shield)
            # Dask gives up a worker that does not come back soon.
            yield client, None, partial(made.scale, int(count))
        return
    if not cluster.startswith(("tcp://", "tls://", "ucx://", "ws://", "wss://")):
        raise UsageError(f"{option('cluster', clean_url(cluster))}: use tcp://HOST:PORT, tls://HOST:PORT or local:N")
    made_here: list[Any] = []

    def connect() -> Any:
        _check_port(cluster)
        made = distributed.Client.__new__(distributed.Client)
        try:
            # Certificates and keys of tls:// are in Dask's own configuration.
            made.__init__(cluster, timeout=_TIMEOUT_SECONDS, set_as_default=False)
            made_here.append(made)
        except Exception as error:  # noqa: BLE001 - whatever answers there may be no scheduler at all
            # Otherwise its destructor would try to reach the missing scheduler, and complain.
            made.status = "closed"
            raise UsageError(f"{option('cluster', clean_url(cluster))}: {_reason(cluster, error)}") from None
        return made_here[-1]

    try:
        yield connect(), connect, lambda: None
    finally:
        for client in made_here:
            client.close(timeout=_TIMEOUT_SECONDS)


def _check_port(cluster: str) -> None:
    """UsageError if no scheduler listens at an address: Dask would try for longer, or wait forever."""
    shown = option("cluster", clean_url(cluster))
    scheme, _, place = cluster.partition("://")
    host, colon, port = place.strip("/").rpartition(":")
    if scheme not in ("tcp", "tls"):
        return
    if not colon or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise UsageError(f"{shown}: use {scheme}://HOST:PORT, Dask's usual port is 8786")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_SECONDS) as connection:
            # A scheduler speaks first: a length, and a message of that length.
            length = connection.recv(8, socket.MSG_WAITALL) if scheme == "tcp" else b""
    except (OSError, UnicodeError) as error:
        words = " ".join(str(error).split())[:200]
        raise UsageError(f"{shown}: the scheduler does not answer: {words}") from None
    if scheme == "tcp" and not 0 < int.from_bytes(length, sys.byteorder) < _GREETING_BYTES:
        raise UsageError(f"{shown}: what answers there is no Dask scheduler")


def _reason(cluster: str, error: BaseException) -> str:
    """Why a scheduler cannot be used."""
    words = " ".join(f"{error}".split())[:200]
    if isinstance(error, OSError | TimeoutError):
        return f"the scheduler does not answer within {_TIMEOUT_SECONDS} s: {words}"
    tls = "; Dask's settings distributed.comm.tls name certificate, key and authority"
    return f"Dask finds no scheduler there: {words}{tls if cluster.startswith('tls') else ''}"


def _dask_crew(
    client: Any, connect: Callable[[], Any] | None = None, revive: Callable[[], object] = lambda: None
) -> Crew:
    executor = DaskExecutor(client, connect, revive)
    there = executor.workers()
    if not there:
        raise UsageError("the cluster has no workers: start some, and try again")
    threads = min(int(one["nthreads"]) for one in there.values())
    return Crew(executor, len(there), executor.renew, max(threads, 1), executor.has_lost, executor.check, executor.halt)


# ---------------------------------------------------------------- before the first write
def check_crew(crew: Crew, jobs: Sequence[Job]) -> None:
    """UsageError if a worker has other versions, cannot see source or target, or has too little memory for a task."""
    jobs = [job for job in jobs if job.source is not None and job.target is not None]
    if not jobs:
        return
    local = _paths(jobs)
    facts = look_around(local)
    needed = max(job.plan.memory_bytes for job in jobs) + _BESIDES_BYTES
    if isinstance(crew.executor, DaskExecutor):
        crew.executor.label = label_of(jobs[0].target.path if jobs[0].target else "")
        usable = import_module("dask").config.get("distributed.worker.memory.pause", 0.8)
        check_memory(crew.executor.workers(), needed, usable or 1.0)
    relative = next((path for path in _described(jobs) if "://" not in path and not os.path.isabs(path)), None)
    seen: dict[tuple[str, int], Facts] = {}
    for found in _ask(crew, local):
        seen[found.host, found.process] = found
        for name, ours in facts.versions.items():
            if found.versions.get(name) != ours:
                raise UsageError(
                    f"a worker on {found.host} has {name} {found.versions.get(name)}, this process has {ours}: "
                    "install the same versions"
                )
        if relative is not None and found.folder != facts.folder:
            raise UsageError(
                f"a worker on {found.host} works in {found.folder}, this process in {facts.folder}: give the source as "
                f"a whole path, such as {absolute(relative)}"
            )
        for path, here, there in zip(local, facts.files, found.files, strict=True):
            if here != there:
                raise UsageError(f"a worker on {found.host} does not see {path}: source and target must be shared")
    _check_hosts(list(seen.values()), needed)


def _described(jobs: Sequence[Job]) -> list[str]:
    """Files that describe the sources."""
    return [path for job in jobs if job.source is not None for path in job.source.store.described_by[:4]]


def _paths(jobs: Sequence[Job]) -> list[str]:
    """Files and folders that all workers must see."""
    above = [os.path.dirname(absolute(job.target.path)) or "/" for job in jobs if job.target is not None]
    seen = dict.fromkeys([*_described(jobs), *above])
    return [absolute(path) for path in list(seen)[:_MOST_PATHS] if "://" not in path]


def _check_hosts(workers: Sequence[Facts], needed_bytes: int) -> None:
    """UsageError if the workers of a machine need more memory than it has."""
    for host, count in Counter(one.host for one in workers).items():
        most = min((one.memory_bytes for one in workers if one.host == host and one.memory_bytes), default=None)
        if most is not None and count * needed_bytes > most:
            room = most // count - _BESIDES_BYTES
            way_out = f": use a memory budget of at most {format_size(room)}, or fewer workers" if room > 0 else ""
            raise UsageError(
                f"{count} worker{'s' * (count > 1)} on {host} would take {format_size(count * needed_bytes)}, "
                f"and it has {format_size(most)}{way_out}"
            )


def _ask(crew: Crew, paths: Sequence[str]) -> list[Facts]:
    """What each worker reports about itself; an error if one does not answer."""
    try:
        if isinstance(crew.executor, DaskExecutor):
            found = crew.executor.client.run(look_around, paths, on_error="return")
            for address, one in found.items():
                if not isinstance(one, Facts):
                    words = " ".join(f"{type(one).__name__}: {one}".split())[:200]
                    raise UsageError(f"the worker {address} cannot use reblock {this_host().version}: {words}")
            return list(found.values())
        asked = [crew.executor.submit(look_around, paths) for _ in range(crew.workers)]
        return [future.result(timeout=_ANSWER_SECONDS) for future in asked]
    except BrokenExecutor:
        raise StorageError(
            "a worker died before it began: a program that starts workers needs `if __name__ == '__main__':`"
        ) from None
    except TimeoutError:
        raise StorageError(f"the workers did not answer within {_ANSWER_SECONDS} seconds") from None


class Facts(NamedTuple):
    """What a worker reports about itself: versions, memory, and the files that it sees."""

    host: str
    """Its machine."""
    process: int
    """Its process."""
    versions: dict[str, str]
    """Versions that must be the same everywhere, so that the same elements are always encoded as the same bytes."""
    memory_bytes: int | None
    """Memory of its machine, or of its control group."""
    folder: str
    """The folder it works in, at which relative paths begin."""
    files: list[int | None]
    """Identities of files and folders; None = not seen."""


def look_around(paths: Sequence[str]) -> Facts:
    """The report of this process about itself."""
    files: list[int | None] = []
    for path in paths:
        try:
            files.append(medium_of(path).status(path).identity)
        except (FileNotFoundError, DiskError):
            files.append(None)
    here = this_host()
    versions = {"reblock": here.version, "numcodecs": version("numcodecs")}
    return Facts(here.host, os.getpid(), versions, machine_bytes(), os.getcwd(), files)
