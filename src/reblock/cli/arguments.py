"""Hide storage options and logins in the command line that other users of the machine see in `ps`.

Linux shows the memory in which the kernel has put the words. Python has its own copies, so ours can be overwritten.
"""

from __future__ import annotations

import re
from contextlib import suppress

_OPTION = b"--storage-option"
#: The login in a URL, where a password may have slashes, and the query.
_LOGIN = re.compile(rb"://([^/@:\0]*:[^@\0]*|[^/@\0]*)@|://[^?\0]*\?([^=\0]*=[^\0]*)")
#: The field of /proc/self/stat that is the address of the words, counted after the name of the program.
_ARG_START = 45


def hide_secrets() -> None:
    """Overwrite the values of storage options, and logins in URLs, in what the system shows of this process."""
    with suppress(OSError, LookupError, ValueError):
        with open("/proc/self/cmdline", "rb") as file:
            line = file.read()
        spans = list(_secrets(line))
        if not spans:
            return
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            start = int(file.read().rpartition(")")[2].split()[_ARG_START])
        # Loaded here: most command lines hold no secrets.
        import ctypes

        if start and ctypes.string_at(start, len(line)) == line:
            for first, last in spans:
                ctypes.memset(start + first, ord("*"), last - first)


def _secrets(line: bytes) -> list[tuple[int, int]]:
    """Where there are secrets in words that end in zero bytes."""
    found = [match.span(match.lastindex or 0) for match in _LOGIN.finditer(line)]
    at, before = 0, b""
    for word in line.split(b"\0"):
        begin = 0 if before == _OPTION else len(_OPTION) + 1 if word.startswith(_OPTION + b"=") else None
        if begin is not None:
            equals = word.find(b"=", begin)
            # A word without a name may be a secret as well.
            found.append((at + (equals + 1 if equals >= 0 else begin), at + len(word)))
        at, before = at + len(word) + 1, word
    return found
