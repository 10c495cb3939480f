"""The process of one run: reads an order from one JSON file and writes the measurements to another.

In a peer's own environment this file is run by its path, and only the modules beside it can be imported.
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


def register_packages() -> None:
    """Register empty parent packages, so that modules of this folder can import each other by their full names."""
    folder = os.path.dirname(os.path.abspath(__file__))
    parts = _PACKAGE.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        package = ModuleType(name)
        package.__path__ = [folder] if name == _PACKAGE else []
        sys.modules[name] = package


def execute(order: dict[str, Any]) -> dict[str, Any]:
    """Run the module that an order names, on the cores that it allows; returns the measurements."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, order["cores"])
    job = import_module(f"{_PACKAGE}.job").PeerJob.from_json(order["job"])
    found = import_module(f"{_PACKAGE}.{order['module']}").run(job)
    return {**found, "versions": {name: version(name) for name in order["distributions"]}}


def main(order_path: str, result_path: str) -> None:
    """Read an order, execute it and write the measurements."""
    with open(order_path, encoding="utf-8") as file:
        order = json.load(file)
    measured = execute(order)
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(measured, file)


if not __package__:
    # A contender's child processes load this file under another name and need the packages too.
    register_packages()

if __name__ == "__main__":
    main(*sys.argv[1:])
