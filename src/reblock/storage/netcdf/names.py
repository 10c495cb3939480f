"""Names that NetCDF can hold: of variables and groups, which are refused otherwise, of dimensions and attributes."""

from __future__ import annotations

from reblock.errors import UsageError
from reblock.storage.attributes import is_text
from reblock.storage.checks import show
from reblock.storage.netcdf.classic import MAX_NAME_BYTES


def name_problem(name: str) -> str:
    """What is wrong with a name for NetCDF, as the end of a sentence; "" if nothing is."""
    if not name or not is_text(name) or "\0" in name:
        return "of Unicode text without NUL"
    if "/" in name:
        return "without a slash"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"of at most {MAX_NAME_BYTES} bytes"
    if name in (".", ".."):
        return "that is no path"
    # Files hold them, but the NetCDF library refuses such names, and ncdump a file that has one.
    if name != name.strip(" "):
        return "that neither begins nor ends with a space"
    return "without control characters" if any(c < " " or c == "\x7f" for c in name) else ""


def part_problem(part: str) -> str:
    """Why a variable or group cannot have a name, as a sentence; "" if it can."""
    problem = name_problem(part)
    return f"NetCDF needs a name {problem}" if problem else ""


def check_path(name: str) -> None:
    """Raise UsageError for the path of a new variable that NetCDF cannot hold."""
    for part in name.split("/"):
        if problem := part_problem(part):
            raise UsageError(f"NetCDF cannot hold the name {show(name)}: {problem}")
