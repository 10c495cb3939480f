"""strace, for tests whose judge is the kernel."""

from __future__ import annotations

import shutil
import subprocess

import pytest

STRACE = shutil.which("strace")


def _may_trace() -> bool:
    return bool(STRACE) and not subprocess.call([STRACE, "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL)


#: Mark of tests that trace.
traces = pytest.mark.skipif(not _may_trace(), reason="strace is not installed or may not trace here")
