"""The page on arrays in PostgreSQL runs: its commands, its Python and its SQL, on the tests' server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import psycopg
import pytest
from click.testing import CliRunner

from postgres_server import Server
from reblock.cli.application import application

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "arrays-in-postgresql.md"
BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("scan.npy", np.arange(100 * 80 * 70, dtype="<f4").reshape(100, 80, 70))
    text = PAGE.read_text(encoding="utf-8").replace("postgresql://localhost/science", server.url)
    commands = programs = queries = 0
    for body in BLOCK.findall(text):
        if body.startswith("reblock "):
            for line in body.splitlines():
                result = CliRunner().invoke(application, shlex.split(line)[1:])
                assert result.exit_code == 0, result.output
                commands += 1
        elif body.startswith("import "):
            exec(body, {})
            programs += 1
        else:
            with psycopg.connect(server.url, autocommit=True) as connection:
                for query in filter(None, map(str.strip, body.split(";"))):
                    cursor = connection.execute(query)
                    assert cursor.description is None or cursor.fetchall()
                    queries += 1
    assert (commands, programs, queries) == (4, 2, 4)
