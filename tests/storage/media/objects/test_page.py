"""The page on object stores runs: its commands and its Python, on the tests' server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from reblock.bench import store_speed
from reblock.cli.application import application
from reblock.storage.media.registry import connect, connect_all
from s3_server import BUCKET, S3Server

PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "object-stores.md"
BLOCK = re.compile(r"^```(sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs(s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in s3.options.items():
        monkeypatch.setenv(name.upper(), value)
    np.save("scan.npy", np.arange(40 * 50 * 60, dtype="<f4").reshape(40, 50, 60))
    # A calibration takes its time; here it need not be exact.
    monkeypatch.setattr(store_speed, "DEPTHS", (1, 8))
    monkeypatch.setattr(store_speed, "_SLICE_SECONDS", 0.05)
    monkeypatch.setattr("reblock.bench.device._SLICE_SECONDS", 0.01)
    monkeypatch.setattr("reblock.bench.device.CODECS", ("zstd",))
    done = []
    for kind, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        text = body.replace("s3://bucket/", f"{bucket}/").replace('"s3://bucket"', f'"s3://{BUCKET}"')
        done.append(kind)
        if not kind:
            exec(text, {})
            continue
        connect_all(options={})
        for line in text.splitlines():
            result = CliRunner().invoke(application, shlex.split(line)[1:])
            assert result.exit_code == 0, result.output
    connect(f"s3://{BUCKET}", s3.options)
    assert done == ["sh", "", "sh"]
