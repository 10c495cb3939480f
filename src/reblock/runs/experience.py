"""Experience: what earlier runs measured, kept in one small file in the user's cache folder.

::

    $XDG_CACHE_HOME/reblock/speeds.json        (~/.cache/reblock/speeds.json)
    {"version": 1, "hosts": {HOST: {SUBJECT: {QUANTITY: [the last samples, the newest last]}}}}

A subject is the machine or one of its devices. Quantities have names such as `read large` or `encode gzip:9`.
Predictions use the median of the samples, so one odd run does no harm.

Nothing here may disturb a run. A file that cannot be read, belongs to another user, is too large or has unexpected
content counts as empty. A file that cannot be written is left alone. The file is replaced atomically, so readers never
see half of it. If two runs end at the same moment, the measurements of one may be lost. The environment variable
REBLOCK_CACHE=off disables the file.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: If this environment variable is "off", runs neither use nor keep measurements.
SWITCH = "REBLOCK_CACHE"
VERSION = 1
#: The largest size of the file in bytes.
MAX_BYTES = 256 << 10
#: Samples that are kept for each quantity.
MAX_SAMPLES = 9
#: The most hosts, subjects of a host, quantities of a subject, and characters of a name.
MAX_HOSTS, MAX_SUBJECTS, MAX_QUANTITIES, MAX_NAME = 8, 32, 64, 160
#: Smallest and largest plausible speed or time.
LEAST, MOST = 1e-12, 1e15
#: Quantity that counts the runs on a device.
RUNS = "runs"

Samples = dict[str, dict[str, list[float]]]


class Sample(NamedTuple):
    """One measurement."""

    subject: str
    """The machine, or the name of a device."""
    quantity: str
    """What was measured."""
    value: float
    """Bytes per second, or seconds."""


@dataclass(frozen=True)
class Experience:
    """The measurements of this host."""

    samples: Samples = field(default_factory=dict)
    """Samples by subject and quantity, the newest last."""

    def value(self, subject: str, quantity: str) -> float | None:
        """The median of the samples; None = nothing was measured."""
        found = self.samples.get(subject, {}).get(quantity)
        if not found:
            return None
        ordered, middle = sorted(found), len(found) // 2
        return ordered[middle] if len(found) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    def runs(self, subject: str) -> int:
        """Number of runs that measured a device."""
        return int(sum(self.samples.get(subject, {}).get(RUNS, ())))


def is_on() -> bool:
    """Whether measurements may be kept."""
    return os.environ.get(SWITCH, "").lower() not in ("off", "0", "no", "false")


def recall() -> Experience:
    """The measurements of this host; empty if there are none, or if they cannot be used."""
    path = _path()
    if path is None:
        return Experience()
    return Experience(_hosts(path).get(_host(), {}))


def keep(samples: Iterable[Sample]) -> None:
    """Add samples to those of earlier runs; errors are ignored."""
    path = _path()
    fresh = [one for one in samples if _is_name(one.subject) and _is_name(one.quantity) and _is_number(one.value)]
    if path is None or not fresh:
        return
    hosts = _hosts(path)
    known = hosts.pop(_host(), {})
    for subject, quantity, value in fresh:
        # Recently used entries move to the end; the oldest are dropped first.
        quantities = known[subject] = known.pop(subject, {})
        before = quantities.pop(quantity, [])
        after = [sum(before) + value] if quantity == RUNS else [*before, value]
        quantities[quantity] = after[-MAX_SAMPLES:]
        _trim(quantities, MAX_QUANTITIES)
    _trim(known, MAX_SUBJECTS)
    hosts[_host()] = known
    _trim(hosts, MAX_HOSTS)
    with suppress(OSError, ValueError):
        _replace(path, hosts)


# ---------------------------------------------------------------- the file
def _path() -> str | None:
    """Path of the file; None if it is disabled, or if there is no cache folder."""
    if not is_on():
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        # The XDG specification says to ignore relative paths.
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "reblock", "speeds.json") if os.path.isabs(base) else None


def _host() -> str:
    return os.uname().nodename[:MAX_NAME] or "host"


def _hosts(path: str) -> dict[str, Samples]:
    """The valid content of the file, for all hosts."""
    try:
        content = json.loads(_read(path))
    except (OSError, ValueError, RecursionError, MemoryError):
        return {}
    if not isinstance(content, dict) or content.get("version") != VERSION:
        return {}
    hosts = _sound(content.get("hosts"), MAX_HOSTS)
    return {
        host: {
            subject: {
                quantity: numbers
                for quantity, found in _sound(quantities, MAX_QUANTITIES).items()
                if (numbers := _numbers(found))
            }
            for subject, quantities in _sound(subjects, MAX_SUBJECTS).items()
        }
        for host, subjects in hosts.items()
    }


def _sound(value: Any, most: int) -> dict[str, Any]:
    """A JSON object if it has valid names, and not too many; else an empty one."""
    if not isinstance(value, dict) or len(value) > most:
        return {}
    return {name: inner for name, inner in value.items() if _is_name(name)}


def _numbers(value: Any) -> list[float]:
    if not isinstance(value, list):
        return []
    return [float(one) for one in value[-MAX_SAMPLES:] if _is_number(one)]


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and LEAST <= value <= MOST


def _read(path: str) -> bytes:
    """The bytes of a regular file that belongs to this user; opening must not block on a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > MAX_BYTES:
            raise ValueError(path)
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)


def _replace(path: str, hosts: dict[str, Samples]) -> None:
    """Replace the file; if it would be too large, the entries that were unused for longest are dropped."""
    while len(content := json.dumps({"version": VERSION, "hosts": hosts}).encode()) > MAX_BYTES:
        oldest = next(iter(hosts.values()))
        if len(hosts) > 1 or not oldest:
            del hosts[next(iter(hosts))]
        else:
            del oldest[next(iter(oldest))]
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    part = os.path.join(folder, f".speeds-{os.getpid()}-{os.urandom(4).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(part, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _trim(found: dict[str, Any], most: int) -> None:
    """Drop the oldest entry."""
    while len(found) > most:
        del found[next(iter(found))]
