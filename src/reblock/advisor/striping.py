"""Striping: how to lay out a new array on Lustre, which spreads a file over servers as its folder says.

A large file gains from several servers, because their rates add up. A small file is slower on several: opening it
contacts all of them. So a file gets a stripe for each GiB, up to a limit::

    many chunks of 16 MiB     1 stripe each: files are spread over servers by their number
    one file of 12 GiB        12 stripes
    one file of 1 TiB         16 stripes, unless the file system has fewer servers

Every file also costs the metadata server some calls, which chunks inside shards do not.
"""

from __future__ import annotations

import shlex

from reblock.units import format_count, format_size

_GIB = 1 << 30
#: The most stripes to recommend without knowing the file system.
MAX_STRIPES = 16
#: Bytes of a stripe: a few of our large writes.
STRIPE_TEXT = "4M"
#: From this many files on, the advice mentions the metadata server.
MANY_FILES = 100_000


def stripes_for(object_bytes: int) -> int:
    """Stripes of a file of this size."""
    return min(max(object_bytes // _GIB, 1), MAX_STRIPES)


def striping_advice(folder: str, object_bytes: int, objects: int) -> str:
    """Advice for an array of this many files of this size in a folder on Lustre."""
    stripes, quoted = stripes_for(object_bytes), shlex.quote(folder)
    if stripes > 1:
        return (
            f"{folder} is on Lustre: before the run, `lfs setstripe -c {stripes} -S {STRIPE_TEXT} {quoted}` spreads "
            f"new files of up to {format_size(object_bytes)} over {stripes} servers, if there are as many"
        )
    note = (
        f"{folder} is on Lustre: before the run, `lfs setstripe -c 1 {quoted}` keeps each new file of up to "
        f"{format_size(object_bytes)} on one server"
    )
    if objects >= MANY_FILES:
        note += f"; {format_count(objects)} files load the metadata server, shards would make fewer"
    return note
