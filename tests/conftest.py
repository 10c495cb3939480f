"""What all tests share: how hard Hypothesis tries, and how many cores a plan is for.

`make fuzz` raises the number of examples through REBLOCK_EXAMPLES; a test that needs its own number should
scale `settings.default.max_examples` rather than name one. There is no deadline: the first example of a test
pays for imports, and two test processes share the machine.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

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
    monkeypatch.setattr("reblock.api.job.cores", lambda: 2)
