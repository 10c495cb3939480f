from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from postgres_server import Server
from reblock.storage.media.postgres import POSTGRES
from reblock.testing.workspace import TargetMediumContract

NAMES = itertools.count()


class TestPostgres(TargetMediumContract):
    medium = POSTGRES

    @pytest.fixture(autouse=True)
    def _on(self, server: Server) -> None:
        self.server = server

    def root(self, tmp_path: Path) -> str:
        folder = f"{self.server.shown}::contract/{next(NAMES)}"
        self.make_medium().make_folder(folder)
        return folder
