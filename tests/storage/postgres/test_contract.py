from __future__ import annotations

import itertools

import pytest

from postgres_server import Server
from reblock.storage.media.postgres import POSTGRES
from reblock.storage.postgres.format import FORMAT
from reblock.testing.contract import FormatContract

NAMES = itertools.count()


class TestPostgres(FormatContract):
    format = FORMAT
    medium = POSTGRES

    @pytest.fixture
    def root(self, server: Server) -> str:
        folder = f"{server.shown}::format/{next(NAMES)}"
        POSTGRES.make_folder(folder)
        return folder
