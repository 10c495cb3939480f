"""The layers hold, and the tool that holds them would notice if they did not."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "reblock"
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
PLANNING = ("errors", "units", "geometry", "model", "cost", "passes", "strategies", "planner", "advisor", "simulation")


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts on the package in `project`/src, and on no other copy of it."""
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--no-logo", "--config", project / "pyproject.toml"],
        cwd=project / "src",
        env=os.environ | {"PYTHONPATH": str(project / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def broken(result: subprocess.CompletedProcess[str]) -> set[str]:
    """Names of the contracts that a run of lint-imports reports as broken."""
    return set(re.findall(r"^(.+?) BROKEN", result.stdout, flags=re.MULTILINE))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the package and its contracts, to be spoiled."""
    shutil.copytree(SOURCE, tmp_path / "src" / "reblock", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def contracts() -> dict[str, dict[str, object]]:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {contract["id"]: contract for contract in configuration["tool"]["importlinter"]["contracts"]}


def planning_files() -> list[Path]:
    found = [SOURCE / f"{room}.py" for room in PLANNING if (SOURCE / f"{room}.py").exists()]
    return found + sorted(file for room in PLANNING for file in (SOURCE / room).rglob("*.py"))


def test_contracts_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Contracts: {len(contracts())} kept, 0 broken" in result.stdout


def test_an_untouched_copy_holds(project: Path) -> None:
    result = lint_imports(project)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        pytest.param("geometry/__init__.py", "import reblock.api", "layers", id="geometry imports api"),
        pytest.param("model/__init__.py", "from reblock import cost", "layers", id="model imports cost"),
        pytest.param("cost/__init__.py", "import reblock.planner", "layers", id="cost imports planner"),
        pytest.param("engine/__init__.py", "import reblock.storage", "layers", id="engine imports storage"),
        pytest.param("planner/__init__.py", "import reblock.engine", "layers", id="planner imports engine"),
        pytest.param("storage/__init__.py", "import reblock.planner", "layers", id="storage imports planner"),
        pytest.param("advisor/__init__.py", "import reblock.planner", "layers", id="advisor imports planner"),
        pytest.param("api.py", "import reblock.cli", "layers", id="api imports cli"),
        pytest.param("errors.py", "import reblock.units", "layers", id="errors imports units"),
        pytest.param("helpers.py", "", "layers", id="a module without a room"),
        pytest.param("engine/__init__.py", "from reblock import plan", "face", id="engine imports the face"),
        pytest.param("engine/chain.py", "from reblock.cost import traffic", "engine", id="engine imports cost"),
        pytest.param("engine/native/__init__.py", "import reblock.passes", "engine", id="engine imports passes"),
        pytest.param("storage/npy/format.py", "import reblock.storage.zarr", "formats", id="npy imports zarr"),
        pytest.param("storage/library.py", "import reblock.storage.zarr", "neutral", id="library imports zarr"),
        pytest.param(
            "storage/blocks/library.py",
            "from reblock.storage.blocks.manifest import read_manifest",
            "second-readers",
            id="the second reader of blocks imports the first",
        ),
        pytest.param("planner/__init__.py", "import h5py", "planning", id="planner imports h5py"),
        pytest.param("advisor/__init__.py", "import tomllib, io", "planning", id="advisor imports io"),
        pytest.param("cost/__init__.py", "from zarr import open_array", "planning", id="cost imports zarr"),
        pytest.param("model/__init__.py", "from os import open", "planning", id="model imports os"),
        pytest.param("strategies/__init__.py", "import threading", "planning", id="strategies import threading"),
        pytest.param(
            "geometry/__init__.py",
            "def late():\n    from concurrent.futures import ThreadPoolExecutor",
            "planning",
            id="geometry imports concurrent inside a function",
        ),
    ],
)
def test_a_spoiled_copy_does_not_hold(project: Path, module: str, line: str, contract: str) -> None:
    file = project / "src" / "reblock" / module
    with file.open("a") as stream:
        stream.write(f"\n{line}\n")

    result = lint_imports(project)

    assert result.returncode != 0
    assert contracts()[contract]["name"] in broken(result), result.stdout + result.stderr


def test_two_strategies_may_not_know_each_other(project: Path) -> None:
    strategies = project / "src" / "reblock" / "strategies"
    (strategies / "first.py").write_text("import reblock.strategies.second\n")
    (strategies / "second.py").write_text("")
    assert contracts()["strategies"]["name"] in broken(lint_imports(project))


def test_every_format_is_held_to_independence() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own = configuration["project"]["entry-points"]["reblock.formats"].values()
    assert {entry.partition(":")[0].removesuffix(".format") for entry in own} == set(contracts()["formats"]["modules"])


def test_the_engine_does_not_ask_for_cores() -> None:
    """A plan says how many threads there are, so that it runs in the same way on any machine."""
    asked = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted((SOURCE / "engine").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("cpu_count", "process_cpu_count", "sched_getaffinity")
    ]
    assert asked == []


def test_planning_opens_no_file() -> None:
    """What import-linter cannot see: the builtin `open`."""
    calls = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in planning_files()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]
    assert planning_files()
    assert calls == []


def test_planning_loads_no_storage_library() -> None:
    """What import-linter cannot see: modules that are imported by name at run time."""
    modules = [".".join(file.relative_to(SOURCE.parent).with_suffix("").parts) for file in planning_files()]
    code = f"""
import importlib, sys
for module in {modules!r}:
    importlib.import_module(module.removesuffix(".__init__"))
print(*sorted(set(sys.modules) & {{"dask", "distributed", "fsspec", "h5py", "numcodecs", "xarray", "zarr"}}))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.stdout.split(), result.stderr) == ([], "")


#: Codecs with a decoder in C; their adapters (`engine/native/NAME.c`) are the only files of the engine that know them.
ADAPTERS = ("blosc", "deflate", "zstd")


def test_only_codecs_know_codecs() -> None:
    """Engine, model and api call decoders by registration; the text form of a codec is read in model/codec.py."""
    places = [(SOURCE / room).rglob(f"*.{ending}") for room in ("engine", "model", "api") for ending in ("py", "[ch]")]
    files = [SOURCE / "errors.py", *(file for found in places for file in found)]
    spoken = re.compile("|".join(ADAPTERS), re.IGNORECASE)
    allowed = {SOURCE / "model" / "codec.py", *(SOURCE / "engine" / "native" / f"{name}.c" for name in ADAPTERS)}
    knowing = {file for file in files if spoken.search(file.read_text())}
    assert knowing - allowed == set()
    assert allowed <= knowing
