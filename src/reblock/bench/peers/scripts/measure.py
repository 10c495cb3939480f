"""Measures a copy: seconds until everything is on the device, and memory above the process' size before it."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any


def measure(copy: Callable[[], object]) -> dict[str, Any]:
    """Run a copy and sync; returns seconds, peak memory above the start, and user and system seconds.

    Child processes that exist before the copy count too: their peaks are added up.
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
    """User and system seconds of this process, of its finished children, and of the running processes given."""
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
    """Fields of /proc/PID/stat from the state on; zeros if the process is gone."""
    with suppress(OSError), open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
        # The program's name, in parentheses, may contain spaces and parentheses.
        return file.read().rpartition(")")[2].split()
    return ["0"] * 50


def resident(process: int) -> int:
    """Resident bytes of a process; also resets its peak, where the kernel can do that."""
    with suppress(OSError), open(f"/proc/{process}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _status(process, "VmRSS")


def peak_of(process: int) -> int:
    """Peak resident bytes of a process; 0 if it is gone."""
    return _status(process, "VmHWM")


def _status(process: int, key: str) -> int:
    with suppress(OSError), open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
    return 0


def family() -> Iterator[int]:
    """Yield the ids of this process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        parents.setdefault(int(_stat(int(name))[1]), []).append(int(name))
    waiting = [os.getpid()]
    while waiting:
        process = waiting.pop()
        waiting += parents.get(process, [])
        yield process
