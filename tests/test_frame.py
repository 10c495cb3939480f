"""What surrounds the code: the public face, start-up, packaging, and files fit to be published."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import reblock
from reblock import errors

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "reblock"
HEAVY = {"dask", "distributed", "fsspec", "h5py", "numcodecs", "xarray", "zarr"}
LINES = 450


def project() -> dict[str, dict[str, dict[str, list[str]]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def start(code: str) -> dict[str, object]:
    """Run `code` in a new interpreter, and tell its time and its modules; the quickest of three counts."""
    script = f"""
import json, sys, time
began = time.perf_counter()
{code}
seconds = time.perf_counter() - began
modules = sorted({{name.partition(".")[0] for name in sys.modules}})
print(json.dumps({{"seconds": seconds, "modules": modules}}))
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    answers = []
    for _ in range(3):
        result = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
        )
        assert result.returncode == 0, result.stderr
        answers.append(json.loads(result.stdout.splitlines()[-1]))
    return min(answers, key=lambda answer: answer["seconds"])


def test_importing_the_package_is_quick() -> None:
    answer = start("import reblock")
    assert not (HEAVY | {"click", "numpy", "rich"}) & set(answer["modules"])
    assert answer["seconds"] < 1  # 0.03 s on a quiet machine


def test_help_is_quick() -> None:
    answer = start("""
from reblock.cli import main
sys.argv = ["reblock", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
""")
    assert not HEAVY & set(answer["modules"])
    assert answer["seconds"] < 2  # 0.2 s on a quiet machine


@pytest.mark.parametrize("command", [["-m", "reblock"], [str(Path(sys.executable).with_name("reblock"))]])
def test_both_ways_to_start_say_the_same(command: list[str]) -> None:
    start_with = [sys.executable, *command] if command[0] == "-m" else command
    result = subprocess.run([*start_with, "--help"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    for name in ("info", "plan", "run", "verify", "demo"):
        assert re.search(rf"^\W*{name}\b", result.stdout, flags=re.MULTILINE), result.stdout


def test_every_public_name_is_there() -> None:
    assert dir(reblock) == sorted(reblock.__all__)
    for name in reblock.__all__:
        assert getattr(reblock, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rechunk'"):
        _ = reblock.rechunk  # type: ignore[attr-defined]


def test_every_exception_is_public() -> None:
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert raised <= set(reblock.__all__)
    assert all(name in (errors.__doc__ or "") for name in raised)


def test_modules_are_small_and_say_what_they_are_for() -> None:
    large, silent = [], []
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text()
        if len(text.splitlines()) > LINES:
            large.append(f"{file.relative_to(ROOT)}: {len(text.splitlines())} lines, at most {LINES}")
        if not ast.get_docstring(ast.parse(text)):
            silent.append(str(file.relative_to(ROOT)))
    assert (large, silent) == ([], [])


def own_files() -> list[Path]:
    """Every file that is in the repository or would be added to it."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


# In pieces, so that this file passes its own test.
HOSTS = "|".join(
    re.escape(".".join(parts))
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("debian", "org"),
    )
)
FOREIGN = {
    "a registry host": re.compile(rf"\b(?:[\w-]+\.)*(?:{HOSTS})\b|--(?:extra-)?index-url"),
    "a path of one machine": re.compile(rf"(?<![\w./~*-])/(?:work|root|home|Users)/\w|{re.escape(str(ROOT))}\b"),
}


def test_files_name_no_registry_host_and_no_path_of_one_machine() -> None:
    found = []
    for file in own_files():
        text = file.read_bytes().decode(errors="replace")
        for what, pattern in FOREIGN.items():
            found += [f"{file.relative_to(ROOT)}: {what}: {match[0]}" for match in pattern.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("url = https://files." + "pythonhosted" + ".org/packages/x.whl", "a registry host"),
        ("pip install --" + "index-url x", "a registry host"),
        ('open("' + "/root" + '/data.npy")', "a path of one machine"),
        ("cd " + "/home" + "/me", "a path of one machine"),
    ],
)
def test_the_patterns_find_what_they_are_for(text: str, what: str) -> None:
    assert FOREIGN[what].search(text)


def test_no_lock_file() -> None:
    assert not [file for file in own_files() if file.name in {"uv.lock", "poetry.lock", "Pipfile.lock"}]


def test_the_wheel_is_complete(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert wheel.name.startswith(f"reblock-{reblock.__version__}-")
    assert "reblock/py.typed" in names
    assert {name for name in names if name.endswith(".py")} == {
        file.relative_to(SOURCE.parent).as_posix() for file in SOURCE.rglob("*.py")
    }
    assert {name.partition("/")[0] for name in names} == {
        "reblock",
        f"reblock-{reblock.__version__}.dist-info",
    }


def test_own_formats_are_found_by_entry_point() -> None:
    found = {entry.name: entry for entry in importlib.metadata.entry_points(group="reblock.formats")}
    assert {"npy", "blocks", "zarr", "hdf5"} <= set(found)
    for entry in found.values():
        assert entry.load() is not None


def test_the_version_is_the_same_everywhere() -> None:
    assert importlib.metadata.version("reblock") == reblock.__version__
    assert f"\nversion: {reblock.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_make_lists_its_commands() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for command in ("demo", "test", "test-newest", "lint", "format", "test-faults", "fuzz", "clean"):
        assert f"make {command} " in listed


def test_ci_runs_the_same_commands_as_a_person() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = re.findall(r"^(?:.*\|\| )?(make .*)$", script.read_text(), flags=re.MULTILINE)
    assert commands == ["make test", 'make test-newest NEWEST_PYTHON="$newest"']
    # Whatever runs last ends in the summary of pytest.
    assert script.read_text().rstrip().endswith(commands[-1])


def test_the_newest_python_is_one_that_is_declared(tmp_path: Path) -> None:
    newest = max(
        tuple(map(int, found.split(".")))
        for found in re.findall(r":: Python :: (3\.\d+)", str(project()["classifiers"]))
    )
    name = f"python{newest[0]}.{newest[1]}"
    (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.defpath}", "HOME": str(tmp_path)}
    command = [ROOT / "scripts" / "newest-python"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert found == f"{tmp_path / name}\n"
    (tmp_path / name).write_text("#!/bin/sh\nexit 127\n")
    pyenv = tmp_path / ".pyenv" / "versions" / f"{newest[0]}.{newest[1]}.9" / "bin" / name
    pyenv.parent.mkdir(parents=True)
    pyenv.write_text("#!/bin/sh\n")
    pyenv.chmod(0o755)
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert found == f"{pyenv}\n"
    pyenv.unlink()
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == ""
