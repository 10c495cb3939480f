"""Text about runs: unfinished ones, their removal, and the members of a job array."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reblock.engine import Report
from reblock.engine.dataset_report import DatasetReport
from reblock.render.columns import fields, plain
from reblock.render.text import note_lines, plural
from reblock.units import exact_size, format_count, format_seconds, format_size

#: The most members that are named.
MANY_MEMBERS = 12
#: Options that are sizes.
_SIZES = ("memory", "scratch_limit")


def unfinished(target: str, found: Mapping[str, Any] | None) -> str:
    """The state of an unfinished run, from the result of `reblock.status`."""
    if found is None:
        return plain(f"{target}: complete, there is no unfinished run")
    boxes = f"{format_count(found['finished_boxes'])} of {plural(found['boxes'], 'write box', 'write boxes')}"
    size = f"{format_size(found['finished_bytes'])} of {format_size(found['bytes'])}"
    pairs = [
        ("state", f"running: {found['running']}" if found["running"] else found["state"]),
        ("finished", f"{boxes}, {size} of the target"),
        ("started", found["started"]),
        ("source", found["source"]),
        ("options", " ".join(_words(found["options"]))),
        ("strategy", f"{found['strategy']}, {format_size(found['memory_bytes'])} of memory"),
        ("staging", found["staging"]),
    ]
    if found.get("disks"):
        pairs.append(("disks", ", ".join(found["disks"])))
    if found["scratch"]:
        pairs.append(("scratch", found["scratch"]))
    if found["arrays"]:
        arrays = found["arrays"]
        done = sum(one["finished_boxes"] == one["boxes"] for one in arrays.values())
        now = next((name for name, one in arrays.items() if one["finished_boxes"] < one["boxes"]), None)
        pairs.insert(1, ("arrays", f"{done} of {len(arrays)} written" + (f", then {now}" if now is not None else "")))
    if found.get("members"):
        pairs[1:1] = [("members", _members(found["members"]))]
    if not found["running"]:
        leftovers = "only leftovers: " if found["state"] == "complete" else ""
        words = f"{leftovers}`reblock resume {target}` resumes it, `reblock clean {target}` removes it"
        if found["state"] == "committed":
            words = f"`reblock resume {target}` moves the rest of its chunks into place; it can no longer be discarded"
        pairs.append(("to do", words))
    return "\n".join([plain(found["target"]), *fields([(name, plain(text)) for name, text in pairs])])


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    """Options in the notation of the command line; a device given by its figures is shown by name."""
    for name, value in options.items():
        option = "--" + name.removesuffix("_format").replace("_", "-")
        if isinstance(value, bool):
            yield option if value else option.replace("--", "--no-")
            continue
        if name in _SIZES and isinstance(value, int):
            yield f"{option} {exact_size(value)}"
            continue
        for one in value if isinstance(value, list) else [value]:
            yield f"{option} {shlex.quote(str(one.get('name') if isinstance(one, Mapping) else one))}"


def removed(target: str, paths: Sequence[str]) -> str:
    """The paths that `reblock.clean` has removed."""
    if not paths:
        return plain(f"{target}: no unfinished run, nothing was removed")
    return "\n".join([plain(f"{target}: removed"), *(f"  {plain(path)}" for path in paths)])


def _members(members: Sequence[Mapping[str, Any]]) -> str:
    """The members of a job array by their state."""
    parts = []
    for state in ("done", "running", "stopped", "waiting"):
        some = [one for one in members if one["state"] == state]
        if some:
            names = ", ".join(str(one["member"]) for one in some[:MANY_MEMBERS])
            boxes = sum(one["finished_boxes"] for one in some)
            more = ", …" if len(some) > MANY_MEMBERS else ""
            done = f" with {plural(boxes, 'write box', 'write boxes')}" if state in ("running", "stopped") else ""
            parts.append(f"{len(some)} {state} ({names}{more}){done}")
    return f"{len(members)}: {'; '.join(parts)}"


def share(report: Report | DatasetReport) -> str:
    """What one member of a job array has done, in a few lines; its costs are a part of the predicted ones."""
    task = report.array_task or {}
    cost = report.measured
    waiting = task["unfinished_members"]
    names = ", ".join(map(str, waiting[:MANY_MEMBERS])) + (", …" if len(waiting) > MANY_MEMBERS else "")
    some = "member" if len(waiting) == 1 else "members"
    if task["published"]:
        end = "published: all members are done"
    elif waiting:
        end = f"not published: {some} {names} {'is' if len(waiting) == 1 else 'are'} not done, the last one publishes"
    else:
        end = "all members are done, and another process publishes"
    pairs = [
        ("share", f"{task['tasks']:,} of {plural(task['all_tasks'], 'task')}"),
        ("work", plural(report.write_boxes, "write box", "write boxes")),
        ("moved", f"{format_size(cost.bytes_read)} read, {format_size(cost.bytes_written)} written"),
        ("target", end),
    ]
    if report.resumed_boxes:
        pairs.insert(2, ("resumed", f"{plural(report.resumed_boxes, 'write box', 'write boxes')} already finished"))
    if report.digest:
        pairs.append(("digest", report.digest))
    where = f"{plain(report.target)}: " if report.target else ""
    head = f"{where}share {task['member']}/{task['members']} done in {format_seconds(report.elapsed_seconds)}"
    return "\n".join([head, *fields(pairs), *note_lines(report.notes)])
