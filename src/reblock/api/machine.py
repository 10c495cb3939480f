"""The machine: its cores, its memory, the limits on memory, the budgets that follow, and its engine.

::

    SLURM_MEM_PER_NODE=4096                         4 GiB for the job on this node; all such numbers are in MiB
    SLURM_MEM_PER_CPU=2048, SLURM_CPUS_ON_NODE=4    8 GiB
    SLURM_STEP_TASKS_PER_NODE=2                     two processes of the step share that
    memory.max, memory.limit_in_bytes               of this process's control group, or of one above it

The default budget is at most half of the lowest limit, because the interpreter, libraries and allocators count too.
Local workers share it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
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
#: The memory budget if none is given, and no limit is lower.
DEFAULT_MEMORY = "1GiB"
#: Variables with the processors of a SLURM job on this node, the best first.
_CPUS = ("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_PER_TASK")
_MIB = 1 << 20
#: Where the kernel counts what processors do.
_PROCESSORS = "/proc/stat"
#: A machine is crowded where its processors are idle for less than this part of the time, and others take that much.
_IDLE_PART, _OTHERS_PART = 0.1, 0.2


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def machine_bytes() -> int | None:
    """Memory of the machine, or the lowest limit of this process; None if unknown."""
    limit = memory_limit()
    return min((size for size in (_physical_bytes(), limit.bytes if limit else 0) if size), default=None)


class MemoryLimit(NamedTuple):
    """The most memory that this process may take."""

    bytes: int
    """The limit."""
    source: str
    """What sets it, in words."""


def memory_limit(environment: Mapping[str, str] = os.environ) -> MemoryLimit | None:
    """The lowest limit that SLURM or a control group sets; None if there is none below the machine's memory."""
    most = _physical_bytes() or 1 << 62
    groups = [MemoryLimit(size, f"the control group {name}") for name, size in _group_limits() if 0 < size < most]
    slurm = _slurm_limit(environment)
    return min([*groups, *([] if slurm is None else [slurm])], default=None)


def _slurm_limit(environment: Mapping[str, str]) -> MemoryLimit | None:
    """The limit of a SLURM job for this process; None outside of jobs, and where the job has all memory of the node."""
    tasks = _largest(environment.get("SLURM_STEP_TASKS_PER_NODE", "")) or 1
    if size := _largest(environment.get("SLURM_MEM_PER_NODE", "")):
        return MemoryLimit(max(size * _MIB // tasks, 1), "SLURM_MEM_PER_NODE")
    if size := _largest(environment.get("SLURM_MEM_PER_CPU", "")):
        cpus = next(filter(None, (_largest(environment.get(name, "")) for name in _CPUS)), 1)
        return MemoryLimit(max(size * cpus * _MIB // tasks, 1), "SLURM_MEM_PER_CPU")
    return None


def _largest(text: str) -> int | None:
    """The largest number in a list such as `4(x2),3`, where 4 stands for two nodes; None for any other text."""
    parts = [re.fullmatch(r"([0-9]{1,12})(\(x[0-9]{1,9}\))?", part) for part in text.strip().split(",")]
    return max((int(part[1]) for part in parts if part), default=None) if all(parts) else None


def default_memory(workers: int | None = None) -> int:
    """The memory budget if none is given: 1 GiB, or a worker's part of half of the limit if that is less."""
    usual, limit = parse_size(DEFAULT_MEMORY), memory_limit()
    return usual if limit is None else max(min(usual, limit.bytes // 2 // max(workers or 1, 1)), 1)


def parse_memory(memory: str | int | None, workers: int | None = None) -> int:
    """A memory budget: bytes, text like 512MiB, a share of the machine's memory like 50%, or None for the default."""
    return default_memory(workers) if memory is None else parse_size(memory, whole=machine_bytes())


def local_workers(workers: int | None, cluster: str | None) -> int | None:
    """The number of worker processes on this machine; None if there are none, or if they may be elsewhere."""
    found = re.fullmatch(r"local:([0-9]{1,3})", cluster or "")
    return int(found[1]) if found else workers


def memory_notes(memory_bytes: int, *, given: bool = True, workers: int | None = None) -> tuple[str, ...]:
    """Notes on a budget that exceeds a limit, or follows from one."""
    most, limit, count = machine_bytes(), memory_limit(), max(workers or 1, 1)
    each = f" for each of {count} workers" if count > 1 else ""
    allowed = "" if limit is None else f"the {format_size(limit.bytes)} that {limit.source} allows"
    if not given and memory_bytes == default_memory(workers) < parse_size(DEFAULT_MEMORY):
        part = f"half of {allowed}" + (f", divided by {count}" if count > 1 else "")
        return (f"memory: {format_size(memory_bytes)}{each} by default, {part}",)
    words = f"the memory budget of {format_size(memory_bytes)}{each} is more than"
    if limit is not None and memory_bytes * count > limit.bytes:
        return (f"{words} {allowed}",)
    if most is None or memory_bytes * count <= most:
        return ()
    return (f"{words} the {format_size(most)} of this machine",)


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


def _group_limits() -> Iterator[tuple[str, int]]:
    """Limits of this process's control groups, and of those above them, with their names."""
    with suppress(OSError, ValueError):
        with open(_OWN_GROUPS, encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
        for _, controllers, path in groups:
            if controllers and "memory" not in controllers.split(","):
                continue
            # Where both versions are in use, the second one has its own folder.
            tops = [os.path.join(_GROUPS, "memory")] if controllers else [_GROUPS, os.path.join(_GROUPS, "unified")]
            here = path.strip("/")
            while True:
                for top in tops:
                    yield from ((f"/{here}", size) for size in _limits(os.path.join(top, here)))
                if not here:
                    break
                here = os.path.dirname(here)


def _limits(folder: str) -> Iterator[int]:
    for name in _LIMITS:
        with suppress(OSError, ValueError), open(os.path.join(folder, name), encoding="ascii") as file:
            yield int(file.read())  # "max" is not a number, and means no limit
