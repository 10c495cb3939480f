"""What a copy takes: seconds until all is on the medium, and memory above what the process had before it."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any


def measure(copy: Callable[[], object]) -> dict[str, Any]:
    """Run a copy and sync; seconds, peak of memory above the start, user and system seconds.

    Processes that were started for the copy count too: their peaks are added up.
    """
    before = {process: resident(process) for process in family()}
    used = _cpu(before)
    began = perf_counter()
    copy()
    os.sync()
    seconds = perf_counter() - began
    peak = sum(max(0, peak_of(process) - start) for process, start in before.items())
    user, system = (after - first for after, first in zip(_cpu(before), used, strict=True))
    return {"seconds": seconds, "peak_bytes": peak, "user_seconds": user, "system_seconds": system}


def _cpu(processes: Iterable[int]) -> tuple[float, float]:
    """User and system seconds of this process, of those below it that have ended, and of those that run."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    user, system = sum(one.ru_utime for one in used), sum(one.ru_stime for one in used)
    for process in processes:
        if process != os.getpid():
            ticks = _stat(process)[10:12]
            user, system = (
                before + int(count) / os.sysconf("SC_CLK_TCK")
                for before, count in zip((user, system), ticks, strict=True)
            )
    return user, system


def _stat(process: int) -> list[str]:
    """Fields of the kernel's line on a process, from its state on; zeros if it is gone."""
    with suppress(OSError), open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
        # The name of a program, in parentheses, may hold anything.
        return file.read().rpartition(")")[2].split()
    return ["0"] * 50


def resident(process: int) -> int:
    """Bytes that a process holds now; its peak starts again from here, where the kernel can do that."""
    with suppress(OSError), open(f"/proc/{process}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _status(process, "VmRSS")


def peak_of(process: int) -> int:
    """Most bytes that a process has held; 0 if it is gone."""
    return _status(process, "VmHWM")


def _status(process: int, key: str) -> int:
    with suppress(OSError), open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
    return 0


def family() -> Iterator[int]:
    """The process itself and all below it."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        parents.setdefault(int(_stat(int(name))[1]), []).append(int(name))
    waiting = [os.getpid()]
    while waiting:
        process = waiting.pop()
        waiting += parents.get(process, [])
        yield process
