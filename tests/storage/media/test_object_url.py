"""URLs of object stores: logins and queries are refused, and no message shows them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from reblock.cli.application import application
from reblock.errors import UsageError
from reblock.storage.media.object_url import check_url, clean_text, clean_url
from reblock.storage.media.registry import medium_of

SECRET = "my-secret"
SECRETS = [
    "s3://key:my-secret@bucket/x.zarr",
    "s3://key:my/my-secret@bucket/x.zarr",
    "s3://my-secret@bucket/x.zarr",
    "s3://key:my/my-secret",
    "http://me:my/my-secret@host/x.npy",
    "http://me:my-secret/x.npy",
    "https://host/x.npy?token=my-secret",
    "https://host?my-secret",
    "az://container/x.zarr?sv=2024&sig=my/my-secret",
    "s3://bucket?signature=my-secret",
    "S3://key:my-secret@bucket/x.zarr",
    "HTTPS://host/x.npy?token=my-secret",
    "gcs://key:my-secret@bucket/x.zarr",
]


@pytest.mark.parametrize("url", SECRETS)
def test_secrets_in_urls(url: str) -> None:
    assert SECRET not in clean_url(url)
    with pytest.raises(UsageError) as wrong:
        medium_of(url)
    assert SECRET not in str(wrong.value)
    for words in (["info", url], ["info", "x.npy", url], [url]):
        result = CliRunner().invoke(application, words)
        assert result.exit_code in (1, 2)
        assert SECRET not in result.output


@pytest.mark.parametrize(
    "url",
    ["s3://bucket/a?b/c#1.zarr", "s3://bucket/me@home/x=1.zarr", "http://host:8080/a@b.npy", "http://[::1]:80/x.npy"],
)
def test_urls_that_only_look_so(url: str) -> None:
    check_url(url)
    assert clean_url(url) == url


def test_urls_in_a_text() -> None:
    text = "the servers (http://me:my-secret@host:80), 'https://host/x?my-secret' and http://127.0.0.1:9: are away"
    assert clean_text(text) == "the servers (http://host:80), 'https://host/x and http://127.0.0.1:9: are away"
