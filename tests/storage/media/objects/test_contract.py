"""The medium of object stores passes the contract of media, on a real S3 server."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from reblock.model.medium import Medium
from reblock.storage.media.registry import medium_of
from reblock.testing.workspace import TargetMediumContract
from s3_server import BUCKET, S3Server

NUMBERS = itertools.count()


class TestS3(TargetMediumContract):
    stamps_bytes = True

    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self.server = s3

    def make_medium(self) -> Medium:
        return medium_of(f"s3://{BUCKET}")

    def root(self, tmp_path: Path) -> str:
        folder = f"s3://{BUCKET}/contract-{os.getpid()}/{next(NUMBERS)}"
        self.make_medium().make_folder(folder)
        return folder
