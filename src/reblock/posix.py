"""The systems that reblock runs on: files are locked, moved and made durable by calls that POSIX systems have."""

from __future__ import annotations

from importlib.util import find_spec

from reblock.errors import UsageError


def require_posix() -> None:
    """Raise UsageError on other systems, before anything that they lack is imported."""
    missing = [name for name in ("fcntl", "pwd", "resource") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"reblock needs a POSIX system such as Linux or macOS: this Python has no {', '.join(missing)}; "
            "on Windows it runs inside WSL"
        )
