"""Text of `reblock formats`: a table of what each format holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

#: Columns of the text beside names and endings.
_WIDTH = 72


def formats(documents: Sequence[Mapping[str, Any]]) -> str:
    """The formats that can be used, then those that miss a library."""
    ready = [one for one in documents if one["available"]]
    names = max(len(one["name"]) for one in documents)
    endings = max(len(_endings(one)) for one in documents)
    lines = []
    for one in ready:
        how = "read, write" if one["writes"] else "read only"
        what = [
            how,
            *(["several arrays"] if one["datasets"] else []),
            f"keeps {', '.join(one['keeps']) or 'nothing else'}",
        ]
        what += [] if one["resumes"] else ["not continued after a kill, but made again"]
        what += ["local files"] if one["local_only"] else []
        head = f"{one['name']:<{names}}  {_endings(one):<{endings}}  "
        first, *rest = wrap("; ".join(what), _WIDTH)
        lines += [head + first, *(" " * len(head) + line for line in rest)]
    missing = [one for one in documents if not one["available"]]
    if missing:
        lines += ["", "not installed"]
        lines += [f"{one['name']:<{names}}  {_endings(one):<{endings}}  {one['missing']}" for one in missing]
    if all(one["resumes"] for one in ready):
        lines += ["", "Targets of all formats are continued after a kill."]
    return "\n".join(line.rstrip() for line in lines)


def _endings(one: Mapping[str, Any]) -> str:
    return " ".join(one["suffixes"])
