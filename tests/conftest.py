"""What all tests share: how hard Hypothesis tries, how many cores a plan is for, and a folder in memory.

`make fuzz` raises the number of examples through REBLOCK_EXAMPLES; a test that needs its own number should
scale `settings.default.max_examples` rather than name one. There is no deadline: the first example of a test
pays for imports, and two test processes share the machine.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from reblock.storage.media.memory import MEMORY

_NUMBERS = itertools.count()

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
    MEMORY.remove_all(f"{folder}/")
