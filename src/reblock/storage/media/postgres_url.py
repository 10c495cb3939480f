"""URLs of databases: `postgresql://HOST[:PORT]/DATABASE[?SETTINGS]::NAME`, and the logins that are taken out of them.

A URL may name a user and a password. Both are removed when a location is parsed, before any message, report or journal
can contain them, and are kept in the memory of this process for its connections. Everything else that libpq knows
(`PGUSER`, `PGPASSWORD`, `~/.pgpass`, service files) works as usual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from reblock.errors import UsageError

#: The beginning of all keys, and libpq's other name for it.
SCHEME, OTHER_SCHEME = "postgresql://", "postgres://"
#: Between the URL of a database and the name of an array.
NAME_MARK = "::"
#: Settings that are secret.
_SECRETS = ("password", "sslpassword")
_URL = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<login>[^/?#]*)@)?"
    r"(?P<host>(?:\[[^\]]*\]|[^/?\[:]|:(?!:))*)"
    r"(?P<rest>.*?)"
    r"(?:::(?P<name>.*))?",
    re.DOTALL,
)


@dataclass(frozen=True, repr=False)
class Login:
    """The user and the secrets of a URL; never shown, never stored."""

    user: str = ""
    """Name of the user; empty = libpq's."""
    secrets: tuple[tuple[str, str], ...] = ()
    """Secret settings by name."""

    def settings(self) -> dict[str, str]:
        """The settings of a connection."""
        return {**({"user": self.user} if self.user else {}), **dict(self.secrets)}


#: Logins of this process, by the URL of the database.
_LOGINS: dict[str, Login] = {}


def is_database(text: str) -> bool:
    """Whether a text is the URL of a database."""
    return text.startswith((SCHEME, OTHER_SCHEME))


def split_key(key: str) -> tuple[str, str]:
    """The URL of the database without its login, and the name after `::`."""
    found = _URL.fullmatch(key)
    if found is None:
        raise UsageError(f"{key[:12]}…: not the URL of a database")
    path, _, query = found["rest"].partition("?")
    pairs = [pair for pair in query.split("&") if pair]
    plain = [pair for pair in pairs if pair.partition("=")[0] not in _SECRETS]
    url = f"{SCHEME}{found['host']}{path}{'?' if plain else ''}{'&'.join(plain)}"
    secrets = {name: unquote(value) for name, _, value in (pair.partition("=") for pair in pairs) if name in _SECRETS}
    user, _, password = (found["login"] or "").partition(":")
    if password:
        secrets["password"] = unquote(password)
    if user or secrets:
        _LOGINS[url] = Login(unquote(user), tuple(secrets.items()))
    return url, "/".join(part for part in (found["name"] or "").split("/") if part)


def clean_key(key: str) -> str:
    """A key as it is shown and stored: without its login."""
    url, name = split_key(key)
    return f"{url}{NAME_MARK}{name}" if name else url


def login_of(url: str) -> Login:
    """The login of a database's URL."""
    return _LOGINS.get(url, Login())


def users() -> dict[str, str]:
    """The users of all databases, for another process; secrets stay here."""
    return {url: login.user for url, login in _LOGINS.items() if login.user}


def remember_users(known: dict[str, str]) -> None:
    """Take over the users of another process."""
    for url, user in known.items():
        _LOGINS.setdefault(url, Login(user))
