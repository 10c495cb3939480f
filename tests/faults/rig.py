"""The rig: runs command lines with a fault at the n-th call, and says what became of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
#: The action that is no errno.
KILL = -1
#: Every kind of call that the shim sees.
ALL = ("open", "read", "write", "sync", "rename", "mkdir", "unlink", "truncate")


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    code: int
    calls: int
    fired: bool
    read: int
    written: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Rig:
    """A process that waits for command lines; see `rig_server`."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler, so no call can be made to fail")
        shim = folder / "shim.so"
        words = [compiler, "-shared", "-fPIC", "-O1", "-o", shim, HERE / "shim.c", "-ldl"]
        subprocess.run(words, check=True, timeout=60)
        self._process = subprocess.Popen(
            [sys.executable, HERE / "rig_server.py", shim],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"LD_PRELOAD": str(shim)},
        )

    def run(
        self,
        root: Path,
        words: Sequence[object],
        *,
        kinds: Sequence[str] = ALL,
        when: int = 0,
        action: int = KILL,
        onwards: bool = False,
        seconds: float | None = None,
        source: str = "x.npy",
    ) -> Outcome:
        """Run a command line in a folder; the `when`-th call of some kinds below it fails (0: none does)."""
        asked = {
            "root": str(root),
            "source": str(root / source),
            "words": [str(word) for word in words],
            "kinds": list(kinds),
            "when": when,
            "onwards": int(onwards),
            "action": action,
            "seconds": seconds,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=10)
