"""Experience: what earlier runs measured, kept in one small file in the user's cache folder.

::

    $XDG_CACHE_HOME/reblock/speeds.json        (~/.cache/reblock/speeds.json)
    {"version": 1, "hosts": {HOST: {SUBJECT: {QUANTITY: [the last samples, the newest last]}}}}

A subject is the machine or one of its devices, a quantity such as `read large` or `encode gzip:9`. What is taken of
several samples is their median, so that one odd run does no harm.

Nothing here may disturb a run. A file that cannot be read, is not ours, is too large or holds anything unexpected
counts as empty; one that cannot be written is left alone. It is replaced in one step, so readers never see half of
it. Of two runs that end in the same moment, one may be forgotten. The environment variable REBLOCK_CACHE=off switches
all of this off.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Set to "off", this environment variable keeps runs from reading and leaving measurements.
SWITCH = "REBLOCK_CACHE"
VERSION = 1
#: Most bytes of the file.
MAX_BYTES = 256 << 10
#: Samples that are kept of a quantity.
MAX_SAMPLES = 9
#: Hosts, subjects of a host, quantities of a subject, and characters of a name.
MAX_HOSTS, MAX_SUBJECTS, MAX_QUANTITIES, MAX_NAME = 8, 32, 64, 160
#: Numbers that can be a speed or a time.
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
        """How many runs have measured a device."""
        return int(sum(self.samples.get(subject, {}).get(RUNS, ())))


def is_on() -> bool:
    """Whether measurements may be kept."""
    return os.environ.get(SWITCH, "").lower() not in ("off", "0", "no", "false")


def recall() -> Experience:
    """What was measured on this host; empty where nothing was, or where it cannot be used."""
    path = _path()
    if path is None:
        return Experience()
    return Experience(_hosts(path).get(_host(), {}))


def keep(samples: Iterable[Sample]) -> None:
    """Add samples to those of earlier runs; whatever goes wrong is ignored."""
    path = _path()
    fresh = [one for one in samples if _is_name(one.subject) and _is_name(one.quantity) and _is_number(one.value)]
    if path is None or not fresh:
        return
    hosts = _hosts(path)
    known = hosts.pop(_host(), {})
    for subject, quantity, value in fresh:
        # What is used moves to the end; what is not used for long is dropped first.
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
    """Where the file is; None where it is switched off, or where there is no such place."""
    if not is_on():
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        # The specification has relative paths ignored.
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "reblock", "speeds.json") if os.path.isabs(base) else None


def _host() -> str:
    return os.uname().nodename[:MAX_NAME] or "host"


def _hosts(path: str) -> dict[str, Samples]:
    """What the file holds of all hosts, as far as it is sound."""
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
    """A JSON object with names that can be ours, not too many of them."""
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
    """The bytes of a regular file that belongs to us; a pipe in its place must not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > MAX_BYTES:
            raise ValueError(path)
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)


def _replace(path: str, hosts: dict[str, Samples]) -> None:
    """Put a new file in the place of the old one; what was not used for longest is left out if it is too large."""
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
    """Drop what was added first."""
    while len(found) > most:
        del found[next(iter(found))]
