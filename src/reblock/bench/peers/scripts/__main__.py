"""The process of one run: a job is read from one file, and what came of it is written to another.

In a peer's own environment this file is run by its path, and the modules beside it are all of reblock there is.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any

_PACKAGE = "reblock.bench.peers.scripts"


def stand_alone() -> None:
    """Let modules of this folder import each other by their full names without the packages around them."""
    folder = os.path.dirname(os.path.abspath(__file__))
    parts = _PACKAGE.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        package = ModuleType(name)
        package.__path__ = [folder] if name == _PACKAGE else []
        sys.modules[name] = package


def answer(order: dict[str, Any]) -> dict[str, Any]:
    """Do what an order says, with the module that it names, on the cores that it allows."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, order["cores"])
    job = import_module(f"{_PACKAGE}.job").Job.from_json(order["job"])
    found = import_module(f"{_PACKAGE}.{order['module']}").run(job)
    return {**found, "versions": {name: version(name) for name in order["distributions"]}}


if not __package__:
    # Also in processes that a contender starts: they load this file under another name.
    stand_alone()

if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        wanted = json.load(file)
    done = answer(wanted)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(done, file)
