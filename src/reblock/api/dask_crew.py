"""Dask: the workers of a cluster as an executor that survives the loss of workers and of their scheduler.

Shares are assigned to workers one by one, so that each has the same number of them; if a worker dies, the scheduler
gives its shares to others. A scheduler that restarts has lost everything, so all shares are submitted again.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

from reblock.engine.pipeline.share import Share
from reblock.engine.pipeline.tether import halt
from reblock.engine.watch import Cancelled
from reblock.errors import StorageError, UsageError
from reblock.units import format_size

#: How long a scheduler and its workers may be away before the run stops.
PATIENCE_SECONDS = 120.0
#: How often the list of workers is read again.
_LIST_SECONDS = 5.0
#: States of a future whose result will never come, because the scheduler has forgotten it.
_FORGOTTEN = ("cancelled", "lost")


class DaskFuture(Future[Any]):
    """A future of Dask as one of `concurrent.futures`; cancelling it removes the task from the scheduler."""

    def __init__(self, forget: Callable[[], None]) -> None:
        super().__init__()
        self._forget = forget

    def cancel(self) -> bool:
        """Forget the task; if a worker is carrying it out, its work is lost."""
        if not super().cancel():
            return False
        self._forget()
        return True


class DaskExecutor(Executor):
    """The workers of a Dask cluster."""

    def __init__(
        self, client: Any, connect: Callable[[], Any] | None = None, revive: Callable[[], object] = lambda: None
    ) -> None:
        """`connect` makes another client if this one gives up its scheduler; None = the caller's client is used.

        `revive` starts workers again, if they are ours.
        """
        self.client = client
        self._connect, self._revive = connect, revive
        self._deserted: float | None = None
        self._token = secrets.token_hex(4)
        self._count = 0
        self._lock = Lock()
        self._placed: Counter[str] = Counter()
        self._names: list[str] = []
        self._processes: set[str] = set()
        self._listed = 0.0
        self.label = "reblock"
        """The name of the tasks in Dask's dashboard."""
        self.vanished = False
        """Whether a worker was lost."""
        self.workers()

    def workers(self) -> dict[str, Any]:
        """The workers that the scheduler knows, by address."""
        found: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        # A worker that is started again may have its old address.
        processes = {str(one.get("id", address)) for address, one in found.items()}
        self.vanished = self.vanished or not self._processes <= processes
        self._names, self._processes, self._listed = sorted(found), processes, monotonic()
        return found

    def has_lost(self) -> bool:
        """Whether a worker has died since the beginning: then a task may have been carried out twice."""
        self.workers()
        return self.vanished

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        """Submit a call; BrokenExecutor if the scheduler cannot be reached now."""
        try:
            if monotonic() > self._listed + _LIST_SECONDS:
                self.workers()
            with self._lock:
                self._count += 1
                number = self._count
                where = min(self._names, key=lambda name: self._placed[name], default=None)
                self._placed[where or ""] += 1
            name = f"{self.label} {arguments[0].name}" if arguments and isinstance(arguments[0], Share) else self.label
            there = self.client.submit(
                function,
                *arguments,
                **more,
                pure=False,
                key=f"{name}-{self._token}-{number}",
                workers=None if where is None else [where],
                allow_other_workers=where is not None,
            )
        except Exception as error:
            # Whatever a client raises while its scheduler is away, it is not the share's fault.
            if self.client.status == "running" and not isinstance(error, OSError | TimeoutError):
                raise
            raise BrokenExecutor(str(error)) from error

        def forget() -> None:
            if self.client.status == "running":
                self.client.cancel([there], asynchronous=True)

        made = DaskFuture(forget)

        def pass_on(done: Any) -> None:
            with self._lock:
                self._placed[where or ""] -= 1
            if made.set_running_or_notify_cancel():
                _pass_on(done, made)

        there.add_done_callback(pass_on)
        return made

    def check(self) -> None:
        """StorageError if there have been no workers for a long time; usually returns at once."""
        now = monotonic()
        if now < self._listed + _LIST_SECONDS or self.client.status != "running":
            return
        try:
            found = self.workers()
        except (OSError, TimeoutError, RuntimeError):
            return  # the scheduler goes: its futures will fail
        if found:
            self._deserted = None
            return
        self._revive()
        self._deserted = self._deserted or now
        if now > self._deserted + PATIENCE_SECONDS:
            raise StorageError(f"the Dask cluster has had no workers for {PATIENCE_SECONDS:.0f} s")

    def halt(self, run: str) -> None:
        """Tell all workers to stop the shares of a run; returns at once."""

        def tell() -> None:
            # A worker that cannot be told sees it by itself, or is gone.
            with suppress(Exception):
                self.client.run(halt, run, on_error="ignore")

        Thread(target=tell, name="reblock-halt", daemon=True).start()

    def renew(self, cancelled: Cancelled) -> Executor:
        """The same executor, once its scheduler and a worker are back; StorageError if they stay away."""
        until = monotonic() + PATIENCE_SECONDS
        words = "no worker is left"
        while monotonic() < until:
            if cancelled():
                raise KeyboardInterrupt
            try:
                if self.client.status == "closed" and self._connect is not None:
                    self.client = self._connect()
                if self.client.status == "running" and self.workers():
                    self.vanished = True
                    return self
                self._revive()
            except (OSError, TimeoutError, UsageError, RuntimeError) as error:
                words = " ".join(str(error).split())[:200]
            sleep(0.2)
        raise StorageError(f"the Dask cluster is gone, and did not come back within {PATIENCE_SECONDS:.0f} s: {words}")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - the base class has it so
        """Nothing to do: the cluster belongs to others."""


def _pass_on(done: Any, made: Future[Any]) -> None:
    """Give the result of a future of Dask to another one."""
    if done.status == "finished":
        try:
            made.set_result(done.result())
        except Exception as error:  # noqa: BLE001 - the worker that held the result died meanwhile
            made.set_exception(BrokenExecutor(str(error)))
        return
    wrong = None if done.status in _FORGOTTEN else done.exception()
    if wrong is None or type(wrong).__name__ in ("KilledWorker", "FutureCancelledError", "NoValidWorkerError"):
        wrong = BrokenExecutor(str(wrong or "the scheduler has forgotten the task"))
    made.set_exception(wrong)


def check_memory(workers: dict[str, Any], needed_bytes: int, usable: float) -> None:
    """UsageError if a worker has less memory than a task needs; Dask pauses workers above the `usable` part."""
    for address, one in workers.items():
        limit, used = int(one.get("memory_limit") or 0), int(one.get("metrics", {}).get("memory") or 0)
        room = int(limit * usable) - used
        if limit and room < needed_bytes:
            most = f": use a memory budget of at most {format_size(room)}, or larger workers" if room > 0 else ""
            raise UsageError(
                f"the worker {address} has {format_size(max(room, 0))} free of its {format_size(limit)}, and a task "
                f"needs {format_size(needed_bytes)}{most}"
            )


def label_of(path: str) -> str:
    """The name of a target in a dashboard; keys must not have dashes followed by anything else."""
    name = os.path.basename(path.split("?", maxsplit=1)[0].rstrip("/")) or "array"
    return f"reblock {name.replace('-', '_')[:60]}"
