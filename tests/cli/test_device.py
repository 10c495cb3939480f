"""`--device`: automatic, by name, and what is said of a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORDS = ("plan", "x.npy", "y.zarr", "--chunks", "5,5")


def test_the_device_is_found_out_where_none_is_named(
    sample: Any, here: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    monkeypatch.delenv("REBLOCK_CACHE")
    assert "auto: nvme preset, nothing measured yet on " in call(*WORDS).stdout
    assert "auto: nvme preset, nothing measured yet on " in call(*WORDS, "--device", "auto").stdout
    assert "device       nvme\n" in call(*WORDS, "--device", "nvme").stdout
    assert not (here / "cache").exists()


def test_an_unknown_device_is_refused_with_those_that_are_known(sample: Any, call: Callable[..., Any]) -> None:
    wrong = call(*WORDS, "--device", "floppy")
    assert wrong.exit_code == 1
    assert "use auto, nvme, ssd, hdd, s3, " in wrong.stderr
