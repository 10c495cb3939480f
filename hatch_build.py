"""Builds the compiled engine with the C compiler at hand; without one reblock works in numpy, only slower."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from glob import glob
from itertools import pairwise
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = "src/reblock/engine/native/*.c"
LIBRARY = "src/reblock/engine/native/libmoves.so"
#: Set by developers and CI: warnings of the compiler are errors.
STRICT = "REBLOCK_STRICT_BUILD"


class CompileMoves(BuildHookInterface):
    """Compiles the C files to a plain shared library, which ctypes loads and which depends on no Python version."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Before a wheel or an editable install is put together."""
        if self.target_name != "wheel":
            return
        library = os.path.join(self.root, LIBRARY)
        problem = build(self.root, library)
        if problem:
            # Not an older one either: it may belong to other sources.
            with suppress(FileNotFoundError):
                os.unlink(library)
            self.app.display_warning(f"reblock's engine will be numpy, which is slower: {problem}")
            return
        build_data["artifacts"].append(LIBRARY)
        build_data["pure_python"] = False
        build_data["infer_tag"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"


def build(root: str, library: str) -> str:
    """Compile the library, and put it where the package finds it; returns what went wrong, if anything did."""
    if os.name != "posix":
        return "it needs POSIX"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not shutil.which(compiler[0]):
        return f"there is no C compiler ({compiler[0]})"
    flags = ["-O3", "-std=c99", "-fPIC", "-shared", "-Wall", "-Wextra"]
    if os.environ.get(STRICT):
        flags.append("-Werror")
    if sys.platform == "darwin":
        target, machines = macos()
        flags += [f"-mmacosx-version-min={target}", *(word for name in machines for word in ("-arch", name))]
    draft = f"{library}.{os.getpid()}.draft"
    command = [*compiler, *flags, *sorted(glob(os.path.join(root, SOURCES))), "-o", draft]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's compiler
        if done.returncode:
            return f"{shlex.join(compiler)} failed: {done.stderr.strip()}"
        os.replace(draft, library)
    except OSError as error:
        return str(error)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    return ""


def platform_tag() -> str:
    """The platform that the library runs on.

    On Linux it is tied to the C library of this machine; only auditwheel can tell which others it runs with.
    """
    if sys.platform != "darwin":
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    target, machines = macos()
    machine = "universal2" if len(machines) > 1 else machines[0]
    return f"macosx_{target.replace('.', '_')}_{machine}"


def macos() -> tuple[str, list[str]]:
    """Oldest macOS that the library is for, and the processors: what is asked for, else those of this machine."""
    words = shlex.split(os.environ.get("ARCHFLAGS", ""))
    machines = sorted({name for flag, name in pairwise(words) if flag == "-arch"})
    machines = machines or [platform.machine()]
    asked = os.environ.get("MACOSX_DEPLOYMENT_TARGET") or sysconfig.get_config_var("MACOSX_DEPLOYMENT_TARGET")
    major, minor = (*map(int, str(asked or "11.0").split(".")), 0)[:2]
    if machines == ["arm64"] and major < 11:
        major, minor = 11, 0
    # From 11 on, minor versions change no interface, and installers know only tags that end in 0.
    return f"{major}.{0 if major >= 11 else minor}", machines
