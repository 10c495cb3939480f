"""Crews: worker processes of this machine, a Dask cluster, or any executor that the caller has."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

from reblock.api.job import Job
from reblock.engine import Crew
from reblock.errors import DiskError, StorageError, UsageError, option
from reblock.planner import price, share
from reblock.storage.location import absolute
from reblock.storage.media.registry import medium_of

#: Dask runs a task again this often if its worker dies.
_RETRIES = 20
#: How long a cluster may take to answer.
_TIMEOUT = "20s"
#: How long workers may take to say what they see.
_ANSWER_SECONDS = 120
#: The most workers of this machine.
MAX_WORKERS = 256


def shared_job(job: Job, workers: int) -> Job:
    """The job with enough tasks for some workers."""
    decision = job.decision
    plan = share(decision.plan, decision.problem, workers)
    if plan is decision.plan:
        return job
    return replace(job, decision=price(plan, decision.problem, objective=decision.objective))


@contextmanager
def open_crew(executor: Any = None, workers: int | None = None, cluster: str | None = None) -> Iterator[Crew | None]:
    """The crew that a caller asks for; None = this process works alone."""
    given = [name for name, one in (("executor", executor), ("workers", workers), ("cluster", cluster)) if one]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(map(option, given))}: give one of them")
    with ExitStack() as opened:
        if workers:
            yield _processes(opened, workers)
        elif cluster:
            yield _dask_crew(opened.enter_context(_client(cluster)), opened)
        elif executor is None:
            yield None
        elif isinstance(executor, Executor):
            yield Crew(executor, max(int(getattr(executor, "_max_workers", 0) or os.cpu_count() or 1), 1))
        elif type(executor).__module__.partition(".")[0] == "distributed":
            yield _dask_crew(executor, opened)
        else:
            raise UsageError(f"executor is a Dask Client or a concurrent.futures.Executor, not {executor!r}")


def _processes(opened: ExitStack, workers: int) -> Crew:
    if not 1 <= workers <= MAX_WORKERS:
        raise UsageError(f"{option('workers', workers)}: use 1 to {MAX_WORKERS} worker processes")
    made: list[ProcessPoolExecutor] = []

    def renew() -> Executor:
        for one in made:
            one.shutdown(wait=False, cancel_futures=True)
        # A fork would copy locks that other threads hold.
        made[:] = [ProcessPoolExecutor(workers, mp_context=get_context("spawn"))]
        return made[0]

    def end() -> None:
        for one in made:
            one.shutdown(cancel_futures=True)

    opened.callback(end)
    return Crew(renew(), workers, renew)


# ---------------------------------------------------------------- Dask
@contextmanager
def _client(cluster: str) -> Iterator[Any]:
    if find_spec("distributed") is None:
        raise UsageError(f"{option('cluster')} needs the module distributed: pip install 'reblock[dask]'")
    distributed = import_module("distributed")
    if cluster.startswith("local:"):
        count = cluster.removeprefix("local:")
        if not (count.isascii() and count.isdecimal()) or not 1 <= int(count) <= MAX_WORKERS:
            raise UsageError(f"{option('cluster', cluster)}: use local:N with N from 1 to {MAX_WORKERS}")
        with (
            distributed.LocalCluster(int(count), threads_per_worker=1, dashboard_address=None) as made,
            distributed.Client(made) as client,
        ):
            yield client
        return
    if not cluster.startswith(("tcp://", "tls://", "ucx://", "ws://", "wss://")):
        raise UsageError(f"{option('cluster', cluster)}: use tcp://HOST:PORT, tls://HOST:PORT or local:N")
    try:
        client = distributed.Client(cluster, timeout=_TIMEOUT)
    except (OSError, TimeoutError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        raise UsageError(f"{option('cluster', cluster)}: the scheduler does not answer: {words}") from None
    with client:
        yield client


def _dask_crew(client: Any, opened: ExitStack) -> Crew:
    there = client.scheduler_info(n_workers=-1)["workers"]
    if not there:
        raise UsageError("the cluster has no workers: start some, and try again")
    executor = client.get_executor(pure=False, retries=_RETRIES)
    opened.callback(executor.shutdown)
    threads = sum(int(one["nthreads"]) for one in there.values())
    return Crew(executor, threads)


# ---------------------------------------------------------------- before the first write
def check_crew(crew: Crew, job: Job) -> None:
    """UsageError if a worker has another version of reblock, or does not see the source or the target."""
    if job.source is None or job.target is None:
        return
    seen = [*job.source.store.described_by[:4], os.path.dirname(absolute(job.target.path)) or "/"]
    local = [absolute(path) for path in seen if "://" not in path]
    facts = look_around(local)
    for found in _ask(crew, local):
        if found["version"] != facts["version"]:
            raise UsageError(f"a worker has reblock {found['version']}, this process has {facts['version']}")
        for path, here, there in zip(local, facts["files"], found["files"], strict=True):
            if here != there:
                raise UsageError(f"a worker on {found['host']} does not see {path}: source and target must be shared")


def _ask(crew: Crew, paths: Sequence[str]) -> list[dict[str, Any]]:
    """What the workers see; StorageError if they do not answer."""
    try:
        asked = [crew.executor.submit(look_around, paths) for _ in range(crew.workers)]
        return [future.result(timeout=_ANSWER_SECONDS) for future in asked]
    except BrokenExecutor:
        raise StorageError(
            "a worker died before it began: a program that starts workers needs `if __name__ == '__main__':`"
        ) from None
    except TimeoutError:
        raise StorageError(f"the workers did not answer within {_ANSWER_SECONDS} seconds") from None


def look_around(paths: Sequence[str]) -> dict[str, Any]:
    """What a worker sees: versions, and files."""
    files: list[int | None] = []
    for path in paths:
        try:
            files.append(medium_of(path).status(path).identity)
        except (FileNotFoundError, DiskError):
            files.append(None)
    return {"version": version("reblock"), "host": socket.gethostname(), "files": files}
