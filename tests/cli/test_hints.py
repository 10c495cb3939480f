"""Hints for what was mistyped, and completion by a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from reblock.cli import hints
from reblock.cli.application import application


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("convert", "a", "b"), "run"),
        (("rechunk", "a", "b"), "run"),
        (("copy", "a", "b"), "run"),
        (("diff", "a", "b"), "verify"),
        (("compare", "a", "b"), "verify"),
        (("ls", "a"), "info"),
        (("inof", "a"), "info"),
        (("verfy", "a", "b"), "verify"),
        (("Run", "a", "b"), "run"),
        (("rum", "a", "b"), "run"),
        (("run", "a", "b", "--compressor", "x"), "--codec"),
        (("run", "a", "b", "--chunk-size", "4"), "--chunks"),
        (("run", "a", "b", "--chunksizes=4"), "--chunks"),
        (("run", "a", "b", "--chuncks", "4"), "--chunks"),
        (("run", "a", "b", "--on_missing", "fill"), "--on-missing"),
        (("run", "a", "--output", "b"), "DST, the second argument"),
        (("run", "a", "b", "--force"), "--overwrite"),
        (("verify", "a", "b", "--crop", "1:2"), "--region"),
        (("info", "a", "--compressor", "x"), None),
        (("split", "a", "b", "--codec", "x"), None),
        (("frobnicate",), None),
        (("run", "a", "b", "--xyzzyq"), None),
    ],
)
def test_hints(call: Callable[..., Any], words: tuple[str, ...], meant: str | None) -> None:
    result = call(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("reblock: error: No such ")
    assert ("did you mean" in result.stderr) == (meant is not None)
    if meant is not None:
        assert f": did you mean {meant}? (see reblock" in result.stderr


def test_what_is_hinted_at_exists() -> None:
    context = click.Context(application)
    commands = {name: application.get_command(context, name) for name in application.list_commands(context)}
    every = {name for one in commands.values() if one for parameter in one.params for name in parameter.opts}
    planned = {"resume", "--exist-ok", "--quiet", "--dry-run"}
    assert set(hints.COMMANDS.values()) <= set(commands) | planned
    assert set(hints.OPTIONS.values()) <= every | planned
    assert not set(hints.COMMANDS) & set(commands)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("reblock ver", {"verify"}),
        ("reblock run --strategy keep", {"keep", "keep-printed"}),
        ("reblock run --objective ", {"time", "seeks", "bytes", "memory"}),
        ("reblock run --to zarr", {"zarr", "zarr2"}),
        ("reblock run --device h", {"hdd"}),
        ("reblock run --codec blosc:z", {"blosc:zstd:5"}),
        ("reblock run sca", {"scan.h5", "scan.zarr"}),
        ("reblock run scan.h5 --sha", {"--shards"}),
        ("reblock verify a b --reader l", {"library"}),
        ("reblock completion b", {"bash"}),
    ],
)
def test_bash_completes(tmp_path: Path, line: str, offered: set[str]) -> None:
    (tmp_path / "scan.h5").touch()
    (tmp_path / "scan.zarr").mkdir()
    # What a shell does: it reads the script, then calls the function that completes this command.
    script = """
    eval "$(reblock completion bash)"
    COMP_WORDS=($LINE); [[ $LINE == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    complete -p reblock > /dev/null || exit 3
    _reblock_completion reblock "${COMP_WORDS[COMP_CWORD]}" ""
    if [[ ${#COMPREPLY[@]} == 0 || -e ${COMPREPLY[0]} ]]; then compgen -f -- "${COMP_WORDS[COMP_CWORD]}"; fi
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "LINE": line},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    assert {word for word in done.stdout.split("\n") if word} == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(call: Callable[..., Any], shell: str) -> None:
    result = call("completion", shell)
    assert result.exit_code == 0
    assert f"_REBLOCK_COMPLETE={shell}_complete" in result.stdout
