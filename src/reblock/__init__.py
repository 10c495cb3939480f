"""Repartition large N-D arrays on disk and in object stores under a hard memory budget.

This module is the public face and nothing else. Names are looked up in `reblock.api` and `reblock.errors` when
they are first used, so importing the package loads neither numpy nor any storage library. Nothing inside the
package imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reblock.api import (
        advise,
        check,
        clean,
        connect,
        create,
        create_replicas,
        extract,
        formats,
        info,
        load_plan,
        merge,
        open,
        open_dataset,
        plan,
        record,
        repair_replicas,
        repartition,
        resume,
        run,
        save_plan,
        simulate,
        split,
        status,
        update_replicas,
        verify,
    )
    from reblock.errors import (
        ChangedError,
        CorruptError,
        DiskError,
        ExternalError,
        FormatError,
        InfeasibleError,
        LockedError,
        MisfitError,
        ReblockError,
        Refused,
        SpaceError,
        StorageError,
        TargetExistsError,
        UnevenError,
        UnfinishedError,
        UsageError,
    )

__version__ = "0.1.0"

__all__ = [
    "ChangedError",
    "CorruptError",
    "DiskError",
    "ExternalError",
    "FormatError",
    "InfeasibleError",
    "LockedError",
    "MisfitError",
    "ReblockError",
    "Refused",
    "SpaceError",
    "StorageError",
    "TargetExistsError",
    "UnevenError",
    "UnfinishedError",
    "UsageError",
    "__version__",
    "advise",
    "check",
    "clean",
    "connect",
    "create",
    "create_replicas",
    "extract",
    "formats",
    "info",
    "load_plan",
    "merge",
    "open",
    "open_dataset",
    "plan",
    "record",
    "repair_replicas",
    "repartition",
    "resume",
    "run",
    "save_plan",
    "simulate",
    "split",
    "status",
    "update_replicas",
    "verify",
]

_API = frozenset(name for name in __all__ if name.islower() and not name.startswith("_"))


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.api" if name in _API else f"{__name__}.errors")
    value: object = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
