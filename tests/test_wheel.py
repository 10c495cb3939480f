"""The build: honest tags, nothing left of a failed one, and a wheel that works outside the checkout."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import reblock
from reblock.engine import native

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "src/reblock/engine/native/libmoves.so"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a build needs, so that the library of this checkout stays as it is."""
    made = tmp_path / "checkout"
    shutil.copytree(ROOT / "src", made / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, made)
    return made


def build(checkout: Path, **environment: str) -> Path:
    shutil.rmtree(checkout / "dist", ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", checkout / "dist"],
        cwd=checkout,
        env=os.environ | environment,
        capture_output=True,
        check=True,
    )
    (wheel,) = (checkout / "dist").glob("*.whl")
    return wheel


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name.removeprefix("reblock/engine/native/") for name in archive.namelist()}


needs_compiler = pytest.mark.skipif(native.library() is None, reason="no C compiler")


@needs_compiler
def test_a_compiled_wheel_is_tagged_by_its_platform(checkout: Path) -> None:
    wheel = build(checkout)
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"reblock-{reblock.__version__}-py3-none-{system}.whl"
    found = contents(wheel)
    assert "libmoves.so" in found
    assert not [name for name in found if name.endswith((".c", ".h", ".draft"))]
    assert not list(checkout.rglob("*.draft"))


@pytest.mark.parametrize("compiler", ["false", "/no/such/compiler"])
def test_a_failed_build_leaves_no_old_library_and_a_wheel_for_any_platform(checkout: Path, compiler: str) -> None:
    (checkout / LIBRARY).write_bytes(b"of older sources")
    wheel = build(checkout, CC=compiler)
    assert not (checkout / LIBRARY).exists()
    assert wheel.name == f"reblock-{reblock.__version__}-py3-none-any.whl"
    assert "libmoves.so" not in contents(wheel)


@needs_compiler
def test_warnings_are_errors_only_where_that_is_asked_for(checkout: Path) -> None:
    with (checkout / "src/reblock/engine/native/guard.c").open("a") as file:
        file.write("static int unused(void) { return 0; }\n")
    build(checkout, REBLOCK_STRICT_BUILD="")
    assert (checkout / LIBRARY).exists()
    build(checkout, REBLOCK_STRICT_BUILD="1")
    assert not (checkout / LIBRARY).exists()


@pytest.fixture
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("machine", "settings", "tag"),
    [
        ("arm64", {}, "macosx_11_0_arm64"),
        ("arm64", {"MACOSX_DEPLOYMENT_TARGET": "10.13"}, "macosx_11_0_arm64"),
        ("arm64", {"MACOSX_DEPLOYMENT_TARGET": "14.2"}, "macosx_14_0_arm64"),
        ("x86_64", {"MACOSX_DEPLOYMENT_TARGET": "10.13"}, "macosx_10_13_x86_64"),
        ("x86_64", {"ARCHFLAGS": "-arch arm64"}, "macosx_11_0_arm64"),
        (
            "arm64",
            {"ARCHFLAGS": "-arch x86_64 -arch arm64", "MACOSX_DEPLOYMENT_TARGET": "10.13"},
            "macosx_10_13_universal2",
        ),
    ],
)
def test_macos_is_tagged_by_what_was_compiled(
    machine: str, settings: dict[str, str], tag: str, hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    for name in ("ARCHFLAGS", "MACOSX_DEPLOYMENT_TARGET"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert hook.platform_tag() == tag


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(checkout: Path, tmp_path: Path) -> None:
    """Built by pip in an environment of its own, installed into another, and run from outside the checkout."""
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, checkout],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode and "No matching distribution found for hatchling" in made.stdout + made.stderr:
        pytest.skip("pip cannot download the build tool")
    assert not made.returncode, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clean], check=True)
    python = clean / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, capture_output=True)
    (packages,) = clean.glob("lib/*/site-packages")
    # The dependencies of this environment; its own reblock is found by a .pth file, which counts only where it lies.
    (packages / "dependencies.pth").write_text(f"{Path(np.__file__).parent.parent}\n")
    away = tmp_path / "away"
    away.mkdir()

    def call(*words: str | Path) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(words, cwd=away, env=environment, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        return done.stdout

    assert call(python, "-c", "import reblock; print(reblock.__file__)").startswith(str(packages))
    assert f"engine: {'compiled' if native.library() else 'numpy'}" in call(clean / "bin" / "reblock", "--version")
    assert "hold the same elements" in call(clean / "bin" / "reblock", "demo")
    assert not list(away.iterdir())
