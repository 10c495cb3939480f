"""The command as a process: streams, signals, terminals, and what it touches."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock

Look = Callable[[Path], dict[str, Any]]
SHAPES = [
    "plan",
    "--shape",
    "140,140,140",
    "--dtype",
    "u2",
    "--source-chunks",
    "35,35,35",
    "--chunks",
    "35,70,35",
    "--memory",
    "1GiB",
]


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, reblock.cli.application; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    modules = set(run([sys.executable, "-c", code]).stdout.split())
    assert "click" in modules
    assert not modules & {"numpy", "zarr", "h5py", "numcodecs", "rich", "fsspec"}


def test_a_run_as_people_start_it(sample: Any, here: Path, command: list[str]) -> None:
    done = run([*command, "run", "x.npy", "y.zarr", "--chunks", "-1,10", "--json"])
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["write_boxes"] == 3
    same = run([*command, "verify", "x.npy", "y.zarr"])
    assert (same.returncode, same.stderr) == (0, "")
    again = run([*command, "run", "x.npy", "y.zarr"])
    assert (again.returncode, again.stdout) == (1, "")
    assert re.fullmatch(r"reblock: error: y\.zarr exists.*\n", again.stderr)


def test_without_a_command_line_that_can_be_parsed(command: list[str]) -> None:
    wrong = run([*command, "run", "--nonsense"])
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert len(wrong.stderr.splitlines()) == 1


# ---------------------------------------------------------------- streams
@pytest.mark.parametrize("words", [SHAPES, [*SHAPES, "--json"], ["--help"], ["info", "nope", "--json"]])
def test_a_reader_that_leaves_early_is_no_news(here: Path, command: list[str], words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        done = subprocess.run([*command, *words], stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == (1 if words[0] in ("info", "--help") else 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_result_that_cannot_be_written_is_an_error(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*command, *SHAPES], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"reblock: error: .*stdout.*ENOSPC\)\n", done.stderr)


def test_closed_streams_do_no_harm(here: Path, command: list[str]) -> None:
    words = " ".join(f"'{word}'" for word in [*command, *SHAPES])
    assert run(["sh", "-c", f"{words} >&-"]).returncode == 0
    assert run(["sh", "-c", f"{words} 2>&-"]).stdout != ""


def test_a_terminal_of_few_letters(here: Path, command: list[str]) -> None:
    done = run([*command, *SHAPES], env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "140 \\xd7 140" in done.stdout


# ---------------------------------------------------------------- the disk
def test_a_plan_from_shapes_touches_no_disk(here: Path, command: list[str]) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    if run([strace, "-o", os.devnull, "true"]).returncode:
        pytest.skip("strace may not trace here")
    trace = here / "trace"
    calls = "openat,open,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlink,symlinkat"
    done = run(
        [strace, "-f", "-o", str(trace), "-e", f"trace={calls}", *command, *SHAPES, "--json"],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lower_bound_seeks"] == 96
    lines = trace.read_text().splitlines()
    assert sum("O_RDONLY" in line for line in lines) > 10  # the trace did see Python start
    writing = [
        line
        for line in lines
        if not re.search(r"\b(open|openat)\(.*\bO_RDONLY\b(?!.*O_CREAT)", line)
        and re.search(r"\b[a-z0-9]+\(", line)
        and "/dev/null" not in line
    ]
    assert writing == []
    assert [path.name for path in here.iterdir()] == ["trace"]


@pytest.mark.parametrize(
    ("target", "most"), [("y.zarr", 1000), ("y.h5", 1000), ("y/", 1000), ("y.npy", 1000), ("y.zarr", 9)]
)
def test_a_disk_that_takes_no_more(here: Path, command: list[str], look: Look, target: str, most: int) -> None:
    np.save(here / "x.npy", np.arange(600.0).reshape(20, 30))
    before = look(here)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    done = run([*command, "run", "x.npy", target, "--chunks", "10,30"], cwd=here, preexec_fn=limit)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "internal error" not in line
    assert "y" in line
    assert look(here) == before


# ---------------------------------------------------------------- Ctrl-C, SIGTERM, SIGHUP
def start_long_run(here: Path, command: list[str], target: str, source: str = "x.npy") -> subprocess.Popen[str]:
    """A run of some thousand files that has begun to write them."""
    np.save(here / "x.npy", np.zeros((1200, 1200), "u1"))
    process = subprocess.Popen(
        [*command, "run", source, target, "--chunks", "20,20", "--json"],
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(2000):
        # The staging folder, what is built in it, and the first files of that.
        if sum(len(files) for _, _, files in os.walk(here)) > 20:
            return process
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    raise AssertionError("the run wrote nothing for 20 seconds")


@pytest.mark.parametrize(
    ("target", "numbers"),
    [
        ("y/", [signal.SIGINT]),
        ("y.zarr", [signal.SIGINT, signal.SIGINT]),
        ("y.zarr", [signal.SIGTERM]),
        # `timeout` sends its signal to the process and to its group.
        ("y/", [signal.SIGTERM, signal.SIGTERM]),
        ("y.zarr", [signal.SIGHUP]),
    ],
)
def test_interrupted(here: Path, command: list[str], look: Look, target: str, numbers: list[int]) -> None:
    process = start_long_run(here, command, target)
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.02)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    twice = numbers.count(signal.SIGINT) > 1
    if "stopped at once" in err:
        assert (twice, out) == (True, "")
    else:
        error = json.loads(out)["error"]
        assert error["type"] == "Interrupted"
        assert "the same command resumes" in error["message"]
    left = {name.split("/")[0] for name in look(here)}
    assert left == {"x.npy", f".{target.rstrip('/')}.reblock"}
    again = run([*command, "run", "x.npy", target, "--chunks", "20,20", "--json"], cwd=here)
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout)
    assert document["write_boxes"] + document["resumed_boxes"] == 3600
    assert twice or document["resumed_boxes"]
    assert {name.split("/")[0] for name in look(here)} == {"x.npy", target.rstrip("/")}
    assert reblock.verify(here / "x.npy", here / target).equal


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_is_ignored_stays_ignored(here: Path, number: int) -> None:
    code = f"import signal; signal.signal({int(number)}, signal.SIG_IGN); from reblock.cli import main; main()"
    process = start_long_run(here, [sys.executable, "-c", code], "y/")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize(
    ("busy", "number"), [("plan", signal.SIGINT), ("plan", signal.SIGTERM), ("verify", signal.SIGHUP)]
)
def test_every_command_can_be_stopped(here: Path, busy: str, number: int) -> None:
    """While it computes, which has no end here."""
    code = f"""if True:
        import signal, reblock.api
        def work(*words, **options):
            print("ready", flush=True)
            while True:
                pass
        reblock.api.{busy} = work
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from reblock.cli import main
        main()
    """
    words = {"plan": ["plan", "x.npy"], "verify": ["verify", "x.npy", "y.npy"]}[busy]
    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, "", "reblock: error: interrupted\n")


def descendants(process: int) -> list[int]:
    children = [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return [*children, *(far for child in children for far in descendants(child))]


def test_a_job_whose_processes_are_all_told_to_end(here: Path, command: list[str]) -> None:
    """As SLURM does; the process that reads HDF5 files is needed to stop in good order."""
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("d", data=np.zeros((2400, 2400), "u1"), chunks=(50, 50), compression="szip")
    process = start_long_run(here, command, "y/", source="x.h5")
    everybody = descendants(process.pid)
    assert len(everybody) > 1
    for child in everybody:
        os.kill(child, signal.SIGTERM)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert process.returncode == 130


# ---------------------------------------------------------------- terminals
def see(process: subprocess.Popen[bytes], terminal: int) -> bytes:
    """All that a process writes to a terminal."""
    seen = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if not ready:
            if process.poll() is not None:
                return seen
            continue
        try:
            seen += os.read(terminal, 65536)
        except OSError:
            return seen
    raise AssertionError("the process did not end")


def test_progress_is_for_terminals(here: Path, command: list[str]) -> None:
    np.save(here / "x.npy", np.zeros((300, 300), "u1"))
    quiet = run([*command, "run", "x.npy", "quiet/", "--chunks", "20,20"], cwd=here)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    terminal, end = pty.openpty()
    try:
        process = subprocess.Popen(
            [*command, "run", "x.npy", "shown/", "--chunks", "20,20", "--json"],
            cwd=here,
            stdout=subprocess.PIPE,
            stderr=end,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
        )
        os.close(end)
        seen = see(process, terminal)
        out, _ = process.communicate(timeout=60)
    finally:
        os.close(terminal)
    assert process.returncode == 0
    assert b"shown/" in seen
    assert b"\x1b[" in seen
    assert json.loads(out)["write_boxes"] == 225
