"""Builds the engine's inner loops with the C compiler at hand; without one reblock works all the same, in numpy."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from glob import glob
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = "src/reblock/engine/native/*.c"
LIBRARY = "src/reblock/engine/native/libmoves.so"


class CompileMoves(BuildHookInterface):
    """Compiles the C files to a plain shared library, which is loaded by ctypes and depends on no Python version."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Before a wheel or an editable install is put together."""
        if self.target_name != "wheel":
            return
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
        if not shutil.which(compiler[0]):
            self.app.display_warning("no C compiler: the engine will use its slower path")
            return
        library = os.path.join(self.root, LIBRARY)
        flags = ["-O3", "-std=c99", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
        sources = sorted(glob(os.path.join(self.root, SOURCES)))
        command = [*compiler, *flags, *sources, "-o", library]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's compiler
        if done.returncode:
            self.app.display_warning(f"the engine will use its slower path: {done.stderr}")
            return
        build_data["artifacts"].append(LIBRARY)
        build_data["pure_python"] = False
        build_data["infer_tag"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
