"""What all tests share: how hard Hypothesis tries, cores of a plan, a folder in memory, and no earlier measurements.

`make fuzz` raises the number of examples through REBLOCK_EXAMPLES; a test that needs its own number should
scale `settings.default.max_examples` rather than name one. There is no deadline: the first example of a test
pays for imports, and two test processes share the machine.
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from reblock.storage.media.memory import MEMORY

_NUMBERS = itertools.count()

# Counts, plans and golden files are those of the nvme preset, whatever this machine is; and no test touches the
# measurements of the user who runs it. Processes that tests start inherit this.
os.environ["REBLOCK_CACHE"] = "off"
os.environ["XDG_CACHE_HOME"] = os.path.join(tempfile.gettempdir(), f"reblock-tests-{os.getuid()}")

# In the background of a shell, or under nohup, the tests ignore a signal, and so would every command that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

settings.register_profile(
    "reblock",
    max_examples=int(os.environ.get("REBLOCK_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("reblock")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plan says of memory depends on the cores; what was written down is for two."""
    monkeypatch.setattr("reblock.api.ends.cores", lambda: 2)


@pytest.fixture
def memory_folder() -> Iterator[str]:
    """An empty folder on the medium in memory, for tests that need a store and no disk."""
    folder = f"memory://tests/{next(_NUMBERS)}"
    MEMORY.make_folder(folder)
    yield folder
    MEMORY.remove_folder(folder)
