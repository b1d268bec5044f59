"""A PostgreSQL URL, split into what is ours and what is libpq's.

Ours are ``listen`` (a second URL, percent-encoded, that leads to the server without a pooler) and
``pool_size``. Everything else is handed to libpq as it was written, so that whatever it knows
(``sslmode``, ``connect_timeout``, ``target_session_attrs`` …) works. No error shows a password.

The scheme may name the driver that the application uses, as SQLAlchemy's URLs do. What asyncpg
alone understands in such a URL is translated or left out: our connections are psycopg's.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from fencepost.core.display import MASK, shortened, shown, shown_url
from fencepost.errors import ConfigurationError
from fencepost.store.url import POSTGRES, POSTGRES_DRIVERS

POOL_SIZE_DEFAULT = 10
POOL_SIZE_MAX = 1_000
PORT_MAX = 65_535
DIGITS_MAX = 9
EXAMPLE = "postgresql://user:password@host:5432/database"

_OWN = ("listen", "pool_size")
_ASYNCPG_ONLY = (
    "command_timeout",
    "max_cacheable_statement_size",
    "max_cached_statement_lifetime",
    "prepared_statement_cache_size",
    "prepared_statement_name_func",
    "statement_cache_size",
    "timeout",
)
"""How asyncpg, or SQLAlchemy over it, uses a connection; not where that leads."""
_SECRET = ("password", "sslpassword")
_PLACE = ("user", "host", "port", "dbname")


class Address(msgspec.Struct, frozen=True):
    """Where a database is, and how to reach it."""

    options: dict[str, str]
    """What libpq is given, the password included: never to be shown."""
    pool_size: int = POOL_SIZE_DEFAULT
    listen: Address | None = None
    """The way around a pooler, for LISTEN; None when there is only one way."""

    @property
    def shown(self) -> str:
        """The URL without its passwords."""
        place = self.options
        user = quote(place.get("user", ""), safe="")
        if user and "password" in place:
            user += f":{MASK}"
        hosts = _hosts(place.get("host", ""), place.get("port", ""))
        rest = {k: v for k, v in place.items() if k not in (*_PLACE, "password")}
        if user and not hosts:
            rest = {"user": place["user"], **rest}
        query = "&".join(
            f"{k}={MASK if k in _SECRET else quote(v, safe='/')}" for k, v in rest.items()
        )
        netloc = f"{user}@{hosts}" if user and hosts else hosts
        name = quote(place.get("dbname", ""), safe="")
        return f"postgresql://{netloc}/{name}" + (f"?{query}" if query else "")

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def _hosts(hosts: str, ports: str) -> str:
    numbers = ports.split(",")
    if len(numbers) == 1:
        numbers *= hosts.count(",") + 1
    pairs = zip(hosts.split(","), numbers, strict=False)
    return ",".join(_host(host) + (f":{port}" if port else "") for host, port in pairs)


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else quote(name, safe="")


def parse(url: str) -> Address:
    """Return the address that *url* names, or raise ConfigurationError."""
    # By hand: to libpq a # is a sign like any other, to urllib it ends the URL.
    scheme, separator, rest = url.partition("://")
    name, _, driver = scheme.lower().partition("+")
    if not separator or name not in POSTGRES:
        raise _refusal(url, f"it must look like {EXAMPLE}")
    if driver not in POSTGRES_DRIVERS:
        raise _refusal(
            url, f"its driver can be psycopg or asyncpg, or left out; it must look like {EXAMPLE}"
        )
    place, _, query = rest.partition("?")
    own = dict(parse_qsl(query, keep_blank_values=True))
    pairs = [pair for pair in query.split("&") if pair.partition("=")[0] not in _OWN]
    foreign = "&".join(_without_asyncpg(pairs) if driver == "asyncpg" else pairs)
    options = _libpq_options(f"postgresql://{place}" + (f"?{foreign}" if foreign else ""), url)
    return Address(options, _pool_size(own.get("pool_size"), url), _listen(own.get("listen")))


def _without_asyncpg(pairs: list[str]) -> list[str]:
    """Return the parameters of a URL for asyncpg as libpq knows them."""
    kept = [pair for pair in pairs if pair.partition("=")[0] not in _ASYNCPG_ONLY]
    return [f"sslmode={pair[4:]}" if pair.startswith("ssl=") else pair for pair in kept]


def _libpq_options(rest: str, url: str) -> dict[str, str]:
    try:
        options = {key: str(value) for key, value in conninfo_to_dict(rest).items()}
    except psycopg.Error as error:
        raise _refusal(url, _without_values(str(error))) from None
    except UnicodeEncodeError:
        raise _refusal(url, "it is not valid Unicode") from None
    for port in filter(None, options.get("port", "").split(",")):
        if not _is_number(port, PORT_MAX):
            raise _refusal(url, f"a port is a number from 1 to {PORT_MAX:,}")
    if "," in options.get("host", options.get("hostaddr", "")):
        options.setdefault("target_session_attrs", "read-write")
    return options


def _without_values(text: str) -> str:
    """Return libpq's complaint; the value it quotes may be a part of a password."""
    text = text.strip()
    if text.startswith("invalid URI query parameter"):
        return text
    return re.sub(r'".*"', f'"{MASK}"', text, flags=re.DOTALL)


def _pool_size(text: str | None, url: str) -> int:
    if text is None:
        return POOL_SIZE_DEFAULT
    if _is_number(text, POOL_SIZE_MAX):
        return int(text)
    raise _refusal(url, f"pool_size must be from 1 to {POOL_SIZE_MAX:,}")


def _is_number(text: str, maximum: int) -> bool:
    """Return whether *text* is a number up to *maximum*; int() refuses more than 4,300 digits."""
    is_short = len(text) <= DIGITS_MAX
    return is_short and text.isdecimal() and text.isascii() and 1 <= int(text) <= maximum


def _listen(url: str | None) -> Address | None:
    if url is None:
        return None
    address = parse(url)
    if address.listen is not None:
        raise _refusal(url, "a URL to listen on cannot name another one")
    return address


def _refusal(url: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{shown(shown_url(url))} cannot be used: {shortened(why)}")
