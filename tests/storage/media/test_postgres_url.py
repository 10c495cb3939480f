from __future__ import annotations

import pickle

import pytest

from reblock.storage.location import Location, shown
from reblock.storage.media.postgres_url import clean_key, is_database, login_of, split_key


@pytest.mark.parametrize(
    ("given", "url", "name"),
    [
        ("postgresql://localhost/db::x", "postgresql://localhost/db", "x"),
        ("postgres://localhost:5433/db::/a//b/", "postgresql://localhost:5433/db", "a/b"),
        ("postgresql://me@h/db::x", "postgresql://h/db", "x"),
        ("postgresql://me:a%40b@h/db::x", "postgresql://h/db", "x"),
        ("postgresql://me:p@ss@h/db::x", "postgresql://h/db", "x"),
        ("postgresql://[::1]:5432/db::x", "postgresql://[::1]:5432/db", "x"),
        ("postgresql://me:pw@[::1],[fe80::2]:5432/db::x", "postgresql://[::1],[fe80::2]:5432/db", "x"),
        ("postgresql:///db?host=/run/pg&password=pw&port=1::x", "postgresql:///db?host=/run/pg&port=1", "x"),
        ("postgresql:///db?sslpassword=pw::x::y", "postgresql:///db", "x::y"),
        ("postgresql://h/db", "postgresql://h/db", ""),
        ("postgresql://", "postgresql://", ""),
    ],
)
def test_urls_are_split_and_cleaned(given: str, url: str, name: str) -> None:
    assert is_database(given)
    assert split_key(given) == (url, name)
    assert clean_key(given) == shown(given) == Location.parse(given).path == (f"{url}::{name}" if name else url)
    assert clean_key(clean_key(given)) == clean_key(given)
    assert Location.parse(given).inner == ""


def test_logins_are_kept_in_memory_only() -> None:
    url, _ = split_key("postgresql://me:a%40b@login-test/db?sslpassword=c%20d::x")
    assert login_of(url).settings() == {"user": "me", "password": "a@b", "sslpassword": "c d"}
    # A URL without a login does not replace it.
    split_key("postgresql://login-test/db::y")
    assert login_of(url).settings()["user"] == "me"
    assert "a@b" not in repr(login_of(url))
    from reblock.storage.media.postgres import POSTGRES

    stored = pickle.dumps(POSTGRES)
    assert b"a@b" not in stored
    assert b"c d" not in stored
    assert pickle.loads(stored) is POSTGRES
