"""Connecting: how buckets of object stores are reached."""

from __future__ import annotations

from typing import Any

from reblock.storage.media.registry import connect as connect_bucket


def connect(url: str, *, lock: bool = True, **options: Any) -> None:
    """Say how the bucket of a URL is reached, for all later calls in this process.

    Without it, credentials, region and endpoint come from the usual environment variables. Options are those of
    obstore, such as `aws_access_key_id`, `aws_endpoint_url`, `skip_signature` for anonymous access, or `timeout`. They
    are kept in memory only: no journal, report or message holds them. With `lock=False`, runs take no lock in this
    bucket, for stores that ignore conditional writes; then make sure that each target has one writer.

    Examples
    --------
    >>> import reblock
    >>> reblock.connect("s3://my-bucket", aws_region="eu-central-1", skip_signature=True)
    """
    connect_bucket(url, {name: _text(value) for name, value in options.items()}, locks=lock)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
