"""The machine: its cores, its memory, budgets as a share of that, and its engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from time import process_time
from typing import NamedTuple

from reblock.engine import native
from reblock.units import format_size, parse_size

#: Where the kernel shows control groups, the groups of this process, and their limits: for cgroups versions 2 and 1.
_GROUPS = "/sys/fs/cgroup"
_OWN_GROUPS = "/proc/self/cgroup"
_LIMITS = ("memory.max", "memory.limit_in_bytes")
#: Where the kernel counts what processors do.
_PROCESSORS = "/proc/stat"
#: A machine is crowded where its processors are idle for less than this part of the time, and others take that much.
_IDLE_PART, _OTHERS_PART = 0.1, 0.2


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def machine_bytes() -> int | None:
    """Memory of the machine, or the limit of this process's control groups; None if unknown."""
    return min((size for size in (_physical_bytes(), *_group_limits()) if size), default=None)


def parse_memory(memory: str | int) -> int:
    """A memory budget: bytes, text like 512MiB, or a share of the machine's memory like 50%."""
    return parse_size(memory, whole=machine_bytes())


def memory_notes(memory_bytes: int) -> tuple[str, ...]:
    """Notes on a budget."""
    most = machine_bytes()
    if most is None or memory_bytes <= most:
        return ()
    return (f"the memory budget of {format_size(memory_bytes)} is more than the {format_size(most)} of this machine",)


def engine_name() -> str:
    """The engine's name: `compiled`, or `numpy` if the compiled library cannot be used."""
    return "numpy" if native.library() is None else "compiled"


def engine_notes() -> tuple[str, ...]:
    """Notes on why the engine is not compiled."""
    if engine_name() == "compiled":
        return ()
    return (f"engine: numpy, which is slower: {native.reason() or 'the compiled engine is switched off'}",)


class Load(NamedTuple):
    """What the processors of the machine have done since it started, and this process among them."""

    busy: float
    """Seconds in which they worked, for anybody."""
    idle: float
    """Seconds in which they had nothing to do."""
    own: float
    """Seconds in which they worked for this process."""

    @classmethod
    def now(cls) -> Load | None:
        """As it is at this moment; None where the system does not tell."""
        with suppress(OSError, ValueError), open(_PROCESSORS, encoding="ascii") as file:
            ticks = [int(number) / os.sysconf("SC_CLK_TCK") for number in file.readline().split()[1:9]]
            idle = sum(ticks[3:5])
            return cls(sum(ticks) - idle, idle, process_time())
        return None

    def crowded(self, later: Load | None) -> bool:
        """Whether between then and now other processes kept this one from working: what it measured is not its own."""
        if later is None:
            return False
        busy, idle, own = (after - before for before, after in zip(self, later, strict=True))
        whole = busy + idle
        return whole > 0 and idle < _IDLE_PART * whole and busy - own > _OTHERS_PART * whole


def _physical_bytes() -> int:
    with suppress(ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0


def _group_limits() -> Iterator[int]:
    """Limits of this process's control groups, and of those above them."""
    with suppress(OSError, ValueError):
        with open(_OWN_GROUPS, encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
        for _, controllers, path in groups:
            top = os.path.join(_GROUPS, "memory") if controllers else _GROUPS
            if controllers and "memory" not in controllers.split(","):
                continue
            here = path.strip("/")
            while True:
                yield from _limits(os.path.join(top, here))
                if not here:
                    break
                here = os.path.dirname(here)


def _limits(folder: str) -> Iterator[int]:
    for name in _LIMITS:
        with suppress(OSError, ValueError), open(os.path.join(folder, name), encoding="ascii") as file:
            yield int(file.read())  # "max" is not a number, and means no limit
