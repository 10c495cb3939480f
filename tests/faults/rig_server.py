"""The other end of the rig: a process with the shim preloaded that runs command lines in forks of itself.

A fork costs a hundredth of starting Python, and a killed one takes nothing with it.
"""

from __future__ import annotations

import ctypes
import gc
import io
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from reblock.cli.application import application

KINDS = {"open": 1, "read": 2, "write": 4, "sync": 8, "rename": 16, "mkdir": 32, "unlink": 64, "truncate": 128}


def main() -> None:
    shim = ctypes.CDLL(sys.argv[1])
    warm_up()
    for line in sys.stdin:
        print(json.dumps(serve(shim, json.loads(line))), flush=True)


def warm_up() -> None:
    """What a command loads while it runs is loaded here, once: two thirds of the time of a small one."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        source = os.path.join(folder, "x.npy")
        np.save(source, np.arange(8.0))
        for target, codec in (("y.npy", "none"), ("y/", "none"), ("y.zarr", "zstd:1"), ("y.h5", "gzip:1")):
            chunks = [] if target == "y.npy" else ["--chunks", "4"]
            words = ["run", source, os.path.join(folder, target), *chunks, "--codec", codec, "--json"]
            if application.main(words, standalone_mode=False):
                raise SystemExit(f"{words} failed before any call was made to")
    gc.collect()
    gc.freeze()


def serve(shim: ctypes.CDLL, asked: dict[str, Any]) -> dict[str, Any]:
    mask = sum(KINDS[kind] for kind in asked["kinds"])
    where = [os.fsencode(asked[name]) for name in ("root", "source")]
    shim.shim_arm(*where, *map(ctypes.c_long, (mask, asked["when"], asked["onwards"], asked["action"])))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            become(asked, out.fileno(), err.fileno())
        code = wait(child, asked["seconds"])
        result = (ctypes.c_long * 4)()
        shim.shim_result(result)
        shim.shim_disarm()
        told = []
        for file in (out, err):
            file.seek(0)
            told.append(file.read().decode("utf-8", "replace"))
    calls, fired, read, written = result
    return {
        "code": code,
        "calls": calls,
        "fired": bool(fired),
        "read": read,
        "written": written,
        "out": told[0],
        "err": told[1],
    }


def become(asked: dict[str, Any], out: int, err: int) -> None:
    """Be the command; does not come back."""
    code = 99
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(asked["root"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = application.main(asked["words"], standalone_mode=False)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def wait(child: int, seconds: float | None) -> int:
    """The exit code, or minus the signal; after so many seconds the child is killed."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG if deadline else 0)
        if found:
            return os.waitstatus_to_exitcode(status)
        if deadline and time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        else:
            time.sleep(0.001)


if __name__ == "__main__":
    main()
