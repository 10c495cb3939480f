"""Only media open, look at and change files of arrays; modules that do so as well are listed here with a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "reblock"

#: Rooms that may touch any file: they make the samples, measure and print, or are themselves the media.
EXEMPT = ("storage/media/", "cli/", "bench/", "testing/")

#: Modules outside of the media that open, look at or change files, and why they may. The only such list.
ALLOWED = {
    # Libraries of formats, from the packages of their formats.
    "storage/hdf5/file.py": "h5py opens HDF5 files by path",
    "storage/hdf5/foreign.py": "HDF5 names other files by path, relative to where the file really is",
    "storage/hdf5/metadata.py": "HDF5 names other files by path, relative to where the file really is",
    "storage/hdf5/redo.py": "the file object that h5py writes through, and its redo file",
    "storage/hdf5/plugins.py": "looks for libraries of filters, which are no files of arrays",
    "storage/zarr/library.py": "zarr-python opens folders by path, to be a second reader",
    "storage/blocks/library.py": "numpy maps block files by path, to be a second reader",
    "storage/fileblocks/library.py": "numpy reads raw blocks by path, to be a second reader",
    "storage/fileblocks/templates.py": "makes the temporary folder of a block that its format can only make as a file",
    "storage/objects/of_numpy.py": "reads the memory maps of this process, to find the file behind a memmap",
    "storage/library.py": "numpy maps .npy files by path, to be a second reader of two formats",
    # Files of this machine that hold no array.
    "storage/registry.py": "looks for distributions that bring formats",
    "storage/roots.py": "resolves links of local paths for the local medium",
    "api/machine.py": "reads the memory limits of this machine",
    "api/devices.py": "reads the description of a device",
    "runs/experience.py": "keeps the speeds that earlier runs measured in the user's cache",
    "api/recall.py": "looks for the description of a device",
    "api/planfile.py": "writes and reads files of plans",
    "api/extract/regions.py": "reads files of spheres",
    "api/extract/tables.py": "numpy writes a table into memory",
    "api/access_log.py": "appends to the log of accesses",
    "api/log_reading.py": "reads the log of accesses",
    "engine/pipeline/share.py": "reads the name of this machine's start, to know whose writes it can make durable",
    "engine/native/loading.py": "looks for the compiled library",
    "dask/arrays.py": "makes and removes the temporary folder of a rechunk",
    "dask/cluster.py": "makes a file that shows whether workers share a folder",
    "dask/experiment.py": "a program that h5py and zarr-python read and write files for, to be compared with",
    "dask/tally.py": "worker processes append counts for the report to a temporary file",
}

#: Functions of modules that touch files; None = all of them.
TOUCHING: dict[str, set[str] | None] = {
    "os": {
        *("open", "fdopen", "stat", "lstat", "fstat", "statvfs", "access", "listdir", "scandir", "walk", "fwalk"),
        *("rename", "renames", "replace", "unlink", "remove", "rmdir", "removedirs", "mkdir", "makedirs"),
        *("link", "symlink", "readlink", "truncate", "chmod", "utime", "mkfifo"),
    },
    "os.path": {
        *("exists", "lexists", "isfile", "isdir", "islink", "ismount", "getsize", "getmtime", "getctime"),
        *("samefile", "realpath"),
    },
    "builtins": {"open"},
    "io": {"open", "FileIO"},
    "shutil": None,
    "tempfile": None,
    "glob": None,
    "pathlib": None,
    "numpy": {"load", "save", "savez", "memmap", "fromfile", "loadtxt"},
    "np": {"load", "save", "savez", "memmap", "fromfile", "loadtxt"},
    "h5py": {"File"},
    "zarr": {"open", "open_array", "open_group", "save"},
}


def touches(source: str) -> Iterator[str]:
    """Calls in a module that open, look at or change files."""
    tree = ast.parse(source)
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    own |= {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in TOUCHING:
            named = TOUCHING[node.module]
            yield from (f"from {node.module} import {a.name}" for a in node.names if named is None or a.name in named)
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open" and "open" not in own:
            yield "open"
        if isinstance(node.func, ast.Attribute):
            module = ast.unparse(node.func.value)
            # h5py is also had as the result of a call.
            named = {"File"} if module in ("library()", "h5py") else TOUCHING.get(module, set())
            if named is None or node.func.attr in named:
                yield f"{module}.{node.func.attr}"


def found() -> dict[str, list[str]]:
    """Modules that touch files, and by which calls."""
    files = {file.relative_to(SOURCE).as_posix(): file for file in sorted(SOURCE.rglob("*.py"))}
    calls = {
        name: sorted(set(touches(file.read_text()))) for name, file in files.items() if not name.startswith(EXEMPT)
    }
    return {name: some for name, some in calls.items() if some}


def test_only_media_touch_files() -> None:
    others = {name: calls for name, calls in found().items() if name not in ALLOWED}
    assert others == {}, "go through store.medium, or say in ALLOWED why not"


def test_the_list_is_not_longer_than_it_must_be() -> None:
    assert sorted(set(ALLOWED) - set(found())) == []


@pytest.mark.parametrize(
    "line",
    [
        "open(path)",
        "with builtins.open(path) as file: pass",
        "os.stat(path)",
        "found = [os.path.exists(one) for one in some]",
        "shutil.rmtree(path)",
        "np.memmap(path)",
        "from os import scandir",
        "from pathlib import Path",
        "h5py.File(path)",
        "def late():\n    zarr.open(path)",
    ],
)
def test_calls_are_noticed(line: str) -> None:
    assert list(touches(f"import os\n{line}\n"))


@pytest.mark.parametrize(
    "line",
    [
        "medium.reader(path)",
        "os.path.join(path, name)",
        "def open(path): pass\nopen(path)",
        "from reblock.api.array import open\nopen(path)",
        "shared.open()",
        "text.replace('a', 'b')",
    ],
)
def test_other_calls_are_not(line: str) -> None:
    assert list(touches(line)) == []
