"""Store URLs and lease tokens: what engines read of what others wrote or kept."""

from __future__ import annotations

import atexit
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

from hypothesis import strategies as st

from fencepost.app import App
from fencepost.cli.options import sqlite_path
from fencepost.core.display import shown_url
from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.outcome import Released, Settlement, Succeeded, decide
from fencepost.core.values.payload import NULL
from fencepost.errors import ConfigurationError
from fencepost.store.interface.queue import Beat, ClaimRequest, LeaseLost, Save
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.open import open_store
from fencepost.store.postgres.engine.url import Address, parse
from fencepost.store.postgres.jobs import lease as postgres_tokens
from fencepost.store.sqlite.engine.files import GROUP_ID_MAX, find_group
from fencepost.store.sqlite.jobs import lease as sqlite_tokens
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock
from lab.fuzz.core_targets import uuids
from lab.fuzz.inputs import bent, objects, raw_text
from lab.fuzz.target import Target

SECRET = "hunter2hunter2"

hosts = st.sampled_from(["db", "db.example", "[::1]", "a,b", "%2Ftmp", ""])
sqlite_urls = st.builds(
    lambda slashes, name, query: f"sqlite:{slashes}{name}{query}",
    st.sampled_from(["///", "////", "//", "/"]),
    st.sampled_from(["jobs.db", "a/b.db", "%20", ":memory:", ""]),
    st.sampled_from(["", "?durability=power", "?durability=process", "?group=0", "?x=1", "#f"]),
)
postgres_urls = st.builds(
    lambda host, port, query: f"postgresql://me:{SECRET}@{host}{port}/shop{query}",
    hosts,
    st.sampled_from(["", ":5432", ":0", ":99999", ":5432,5433", f":{'9' * 5_000}"]),
    st.sampled_from(["", "?sslmode=disable", "?pool_size=5", "?pool_size=x", f"?listen={SECRET}",
                     f"?password={SECRET}", "?listen=" + quote(f"postgresql://u:{SECRET}@h/d")]),
)  # fmt: skip
urls = bent(sqlite_urls | postgres_urls | st.sampled_from(["memory://", "redis://h/1", "http://x"]))
hexes = st.integers(0, 2**64).map(lambda number: f"{number:x}")
secrets = st.text("0123456789abcdef", min_size=32, max_size=32)
tokens = st.builds(lambda *parts: ".".join(parts), hexes, hexes, secrets) | st.builds(
    lambda *parts: ".".join(parts), hexes, hexes, secrets, secrets.map(lambda text: text[:12])
)


def _check_group(_: str, number: int) -> None:
    assert 0 <= number <= GROUP_ID_MAX


def _open(url: Any) -> Any:
    """Open a store without touching a disk or a network."""
    with (
        patch("fencepost.store.sqlite.store.SqliteStore", _Unopened),
        patch("fencepost.store.postgres.store.PostgresStore", _Unopened),
    ):
        return open_store(url)


class _Unopened:
    def __init__(self, place: str, **_: Any) -> None:
        self.place = place


def _open_from_environment(url: str) -> str:
    with patch.dict("os.environ", {"FENCEPOST_URL": url}):
        return repr(App())


def _check_place(given: Any, store: Any) -> None:
    if isinstance(store, _Unopened) and given.startswith("sqlite"):
        assert store.place
        assert "\0" not in store.place


def _parse_postgres(url: str) -> Address:
    return parse(url)


def _check_address(given: str, address: Address) -> None:
    if f":{SECRET}@" in given:
        assert SECRET not in address.shown.rpartition("@")[0]
    assert parse(address.shown).options.keys() <= {*address.options.keys(), "password"}
    repr(address)


def password_of(given: Any) -> str | None:
    """Return the password, if it stands where one stands and nowhere else."""
    if not isinstance(given, str) or given.count(SECRET) != 1:
        return None
    return SECRET if re.match(rf"(\w+:)?(//?)?[^/?#@]*:{SECRET}@", given) else None


def _check_hidden(given: str, text: str) -> None:
    assert password_of(given) is None or SECRET not in text


def _check_postgres_token(given: tuple[str, str], fence: Any) -> None:
    if fence is not postgres_tokens.NOWHERE:
        assert 0 < fence.seq < postgres_tokens.SEQ_END
        assert 0 < fence.lane < postgres_tokens.LANE_END
        mark = postgres_tokens.token_mark(fence.lane, fence.lease_token)
        made = postgres_tokens.make_token(fence.seq, mark, given[1].lower())
        assert made == given[0].lower()


def _check_sqlite_token(given: str, fence: Any) -> None:
    if fence is not sqlite_tokens.NOWHERE:
        assert 0 < fence.seq < sqlite_tokens.SEQ_END
        assert sqlite_tokens.make_token(*fence) == given


class Keeper:
    """A store with one job under a lease, which nobody may touch who does not hold it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.run(store.queue.enqueue([NewJob(type="kept")]))
        (self.job,) = store.run(store.queue.claim(ClaimRequest(worker="fuzz", limit=1))).jobs

    def present(self, token: str, job_id: str) -> Sequence[Any]:
        """Try to write with a token; return what each operation answered."""
        store, rng = self.store, self.store.clock.rng
        decisions = [decide(self.job, outcome, rng) for outcome in (Succeeded(NULL), Released())]
        return [
            *store.run(store.queue.heartbeat([Beat(job_id, token, 30.0)])),
            *store.run(store.queue.save([Save(job_id, token, NULL)])),
            *(store.run(store.queue.settle([Settlement(job_id, token, d)]))[0] for d in decisions),
        ]


def memory_keeper() -> Keeper:
    """Return one in memory."""
    return Keeper(MemoryStore(clock=FakeClock()))


@cache
def sqlite_keeper() -> Keeper:
    """Return the one in a file, which goes when the process does."""
    folder = tempfile.TemporaryDirectory(prefix="fencepost-fuzz-")
    store = SqliteStore(f"{folder.name}/jobs.db", clock=FakeClock(), durability="process")
    atexit.register(folder.cleanup)
    atexit.register(store.close)
    return Keeper(store)


def _forged(job: ClaimedJob, given: Any) -> tuple[str, str]:
    """Return a token and a job id that are nearly the real ones, or not at all."""
    how, token, job_id = given
    if how == "mutated":
        whole = job.lease.token
        at = len(token) % (len(whole) + 1)
        token = whole[:at] + token + whole[at + len(job_id) % 3 :]
        job_id = job.id
    elif how == "of another job":
        token = job.lease.token
    return token, job_id


def _present(keeper: Keeper, given: Any) -> Sequence[Any]:
    token, job_id = _forged(keeper.job, given)
    if job_id.lower() == keeper.job.id and _proof(token) == _proof(keeper.job.lease.token):
        return []
    replies = keeper.present(token, job_id)
    if not all(isinstance(reply, LeaseLost) for reply in replies):
        sqlite_keeper.cache_clear()  # its job is no longer what it was
    return replies


def _proof(token: str) -> list[str]:
    """Return what of a token proves anything; the lane in it only says where to look."""
    parts = token.split(".")
    return [*parts[:1], *parts[2:]]


def _check_refused(_: Any, replies: Sequence[Any]) -> None:
    assert all(isinstance(reply, LeaseLost) for reply in replies), replies


forgeries = st.tuples(
    st.sampled_from(["made up", "mutated", "of another job"]),
    bent(tokens),
    bent(uuids),
)
usable = raw_text.filter(lambda text: "\0" not in text).map(
    lambda text: (
        text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        if _is_environmental(text)
        else ""
    )
)


def _is_environmental(text: str) -> bool:
    """Tell whether an environment variable could hold *text*."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


STORE_TARGETS = (
    Target(
        "?group= of SQLite",
        find_group,
        raw_text | bent(st.sampled_from(["root", "0", "4294967294"])) | st.integers().map(str),
        (ConfigurationError,),
        _check_group,
    ),
    Target("store URL", _open, urls | objects, (ConfigurationError,), _check_place, password_of),
    Target("FENCEPOST_URL", _open_from_environment, usable),
    Target(
        "PostgreSQL URL",
        _parse_postgres,
        bent(postgres_urls) | urls,
        (ConfigurationError,),
        _check_address,
        password_of,
    ),
    Target("URL without its password", shown_url, urls, (), _check_hidden),
    Target("path of a SQLite URL", sqlite_path, urls),
    Target(
        "PostgreSQL token",
        lambda given: postgres_tokens.read_token(*given),
        st.tuples(bent(tokens), bent(uuids)),
        (),
        _check_postgres_token,
    ),
    Target("SQLite token", sqlite_tokens.read_token, bent(tokens), (), _check_sqlite_token),
    Target(
        "token at the memory store",
        lambda given: _present(memory_keeper(), given),
        forgeries,
        (),
        _check_refused,
    ),
    Target(
        "token at the SQLite store",
        lambda given: _present(sqlite_keeper(), given),
        forgeries,
        (),
        _check_refused,
    ),
)
