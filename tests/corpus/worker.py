"""A process that runs command lines one after the other, so that a crash, a hang or a flood of memory is seen.

One process for many cases: to start one takes longer than most cases do. Peak memory is measured per case, by
resetting what the kernel remembers of it.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

#: Arrays that are read whole.
MANY_BYTES = 1 << 22
#: The end of a location whose dataset is read, not one array.
WHOLE = "|dataset"
TESTS = Path(__file__).resolve().parents[1]
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from corpus.worker import serve; serve()"


@dataclass(frozen=True)
class Outcome:
    """What became of a command line."""

    code: int
    """Exit code; minus the number of the signal that ended the process; None of both for a hang: -1."""
    document: Any
    """The JSON document on stdout, or the text that was none."""
    seconds: float
    """Processor time, that of processes it waited for included."""
    peak_bytes: int
    """Memory above that of the process before."""

    @property
    def error(self) -> str:
        """Type of the error; empty where there was none."""
        return self.document["error"]["type"] if isinstance(self.document, dict) and "error" in self.document else ""


class Worker:
    """The process, started anew when a case has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, words: list[str], *, timeout: float = 20) -> Outcome:
        """Run one command line; `read PATH [TARGET]` reads an array through the library instead."""
        process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        # A process that has died already is seen below, by what it does not answer.
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(words).encode() + b"\n")
            process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], timeout)
        line = process.stdout.readline() if ready else b""
        if not line:
            code = process.wait() if ready else -1
            self.close()
            return Outcome(code, "hangs" if code == -1 else signal.Signals(-code).name if code < 0 else "", 0, 0)
        return Outcome(**json.loads(line))

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(TESTS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self._process

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            with suppress(BrokenPipeError):
                self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# ---------------------------------------------------------------- the other side
def serve() -> None:
    """Run command lines from stdin until it ends."""
    from reblock.cli.application import application

    answers = os.fdopen(os.dup(1), "w")
    # What anybody else prints must not get between the answers.
    os.dup2(2, 1)
    for line in sys.stdin:
        words = json.loads(line)
        out = io.StringIO()
        before, began = _status("VmRSS"), time.process_time()
        Path("/proc/self/clear_refs").write_text("5")
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = read(*words[1:]) if words[0] == "read" else application.main(words, standalone_mode=False)
        seconds, peak = time.process_time() - began, max(_status("VmHWM") - before, 0)
        try:
            document = json.loads(out.getvalue())
        except ValueError:
            document = out.getvalue()
        answers.write(json.dumps({"code": code, "document": document, "seconds": seconds, "peak_bytes": peak}) + "\n")
        answers.flush()


def read(path: str, target: str = "") -> int:
    """Read a small array, or repartition it: 0 where that works, 1 with the error as a document where it does not."""
    import reblock

    try:
        if path.endswith(WHOLE):
            _read_dataset(path.removesuffix(WHOLE))
            return 0
        array = reblock.open(path)
        small = max(array.layout.nbytes, array.layout.unit_bytes, array.layout.object_bytes) <= MANY_BYTES
        if small and target:
            reblock.repartition(array, target, memory="64MiB")
        elif small:
            array[...]
    except reblock.ReblockError as error:
        print(json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}))
        return 1
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        print(json.dumps({"error": {"type": "untyped", "message": "".join(traceback.format_exception(error))}}))
        return 1
    return 0


def _read_dataset(path: str) -> None:
    """Read all small arrays and tables of a dataset; one that fails must not fail in an untyped way."""
    import reblock

    dataset = reblock.open_dataset(path, memory=MANY_BYTES)
    dataset.tree()
    for name in dataset:
        with suppress(reblock.ReblockError):
            array = dataset[name]
            if max(array.layout.nbytes, array.layout.unit_bytes) <= MANY_BYTES:
                array[...]
    for name, table in dataset.tables.items():
        with suppress(reblock.ReblockError):
            if not table.why:
                dataset.store.rows(name, 0, 100, MANY_BYTES)
    dataset.store.described_by  # noqa: B018 - it is computed


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)
