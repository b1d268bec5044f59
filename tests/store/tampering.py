"""Somebody who can write to the database, and has no key: what they do, by SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import psycopg
from msgspec.structs import replace

from fencepost.core.encryption import REFUSE, EncryptionKey, KeyRing, Plain
from fencepost.core.job.job import (
    Body,
    Category,
    ClaimedJob,
    Encoding,
    Failure,
    Job,
    NewJob,
    Progress,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Outcome, Succeeded, decide, settlement_of
from fencepost.core.job.policy import Policy
from fencepost.core.values.names import id_bytes
from fencepost.store.interface.queue import ClaimRequest, Save
from fencepost.store.interface.store import Store
from fencepost.store.postgres.store import PostgresStore
from fencepost.store.sql.codec import ENCODING_NUMBER, ENCODINGS, NUMBER
from fencepost.store.sqlite.store import SqliteStore
from fencepost.store.wrappers.encrypted import encrypted
from fencepost.testing.clock import FakeClock

KEYS = KeyRing((EncryptionKey("k", b"k" * 32),))
TRUE, FORGED = "what the owner wrote", "what somebody else wrote"
HOOK = "https://example.com/hook?secret=1"
BODIES = ("payload", "result", "checkpoint")
TEXTS = ("failure", "attempt", "progress", "callback")


class Database(Protocol):
    """One store's tables, written to behind its back."""

    def open(self, keys: KeyRing | None = KEYS, plain: Plain = REFUSE) -> Store: ...
    def take(self, field: str, job_id: str) -> Any:
        """Return what is stored of a field of a job."""

    def put(self, field: str, job_id: str, value: Any) -> None:
        """Store something else there."""

    def dress(self, job_id: str, like: str) -> None:
        """Give a job the type and queue of another."""

    def set_key(self, job_id: str, key: str | None) -> None: ...
    def set_version(self, job_id: str, version: int) -> None:
        """Change the version of the lease under which a job has ended."""

    def end_as(self, job_id: str, state: State) -> None:
        """Change the state in which a job has ended."""

    def execute(self, sql: str, *params: Any) -> list[Any]: ...
    def table(self, name: str) -> str: ...
    def close(self) -> None: ...


class _Opening:
    """Stores that are opened and closed again."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._opened: list[Store] = []

    def _make(self) -> Store:
        raise NotImplementedError

    def open(self, keys: KeyRing | None = KEYS, plain: Plain = REFUSE) -> Store:
        store = self._make()
        self._opened.append(store)
        return store if keys is None else encrypted(store, keys, plain)

    def close(self) -> None:
        for store in self._opened:
            store.close()


class SqliteDatabase(_Opening):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def _make(self) -> Store:
        return SqliteStore(str(self._path), clock=self.clock)

    def execute(self, sql: str, *params: Any) -> list[Any]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            return connection.execute(sql, params).fetchall()

    def table(self, name: str) -> str:
        return name

    def take(self, field: str, job_id: str) -> Any:
        ((value,),) = self.execute(f"select {_SQLITE[field]} from jobs where id = ?", _id(job_id))
        if field not in BODIES:
            return value
        ((number,),) = self.execute(f"select {field}_encoding from jobs where id = ?", _id(job_id))
        return Body(value, ENCODINGS[number])

    def put(self, field: str, job_id: str, value: Any) -> None:
        column = _SQLITE[field]
        if field == "attempt":
            of_job = "seq = (select seq from jobs where id = ?)"
            self.execute(f"update attempts set failure = ? where {of_job}", value, _id(job_id))
        elif field in BODIES:
            sql = f"update jobs set {column} = ?, {column}_encoding = ? where id = ?"
            data, number = (None, None) if value is None else _stored(value)
            self.execute(sql, data, number, _id(job_id))
        else:
            self.execute(f"update jobs set {column} = ? where id = ?", value, _id(job_id))

    def dress(self, job_id: str, like: str) -> None:
        lane = "(select lane from jobs where id = ?)"
        self.execute(f"update jobs set lane = {lane} where id = ?", _id(like), _id(job_id))

    def set_key(self, job_id: str, key: str | None) -> None:
        self.execute("update jobs set key = ? where id = ?", key, _id(job_id))

    def set_version(self, job_id: str, version: int) -> None:
        self.execute("update jobs set lease_version = ? where id = ?", version, _id(job_id))

    def end_as(self, job_id: str, state: State) -> None:
        self.execute("update jobs set state = ? where id = ?", NUMBER[state], _id(job_id))


_SQLITE = {name: name for name in (*BODIES, "failure", "progress")}
_SQLITE |= {"callback": "callback_url"}
_SQLITE["attempt"] = "(select failure from attempts where attempts.seq = jobs.seq limit 1)"


class PostgresDatabase(_Opening):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def _make(self) -> Store:
        store = PostgresStore(self._url, clock=self.clock)
        store.migrate()
        return store

    def execute(self, sql: str, *params: Any) -> list[Any]:
        with psycopg.connect(self._url) as connection:
            cursor = connection.execute(sql.replace("?", "%s"), params)
            return cursor.fetchall() if cursor.description else []

    def table(self, name: str) -> str:
        return f"fencepost.{name}"

    def take(self, field: str, job_id: str) -> Any:
        table, column = _POSTGRES[field]
        where = f"from fencepost.{table} where seq = {_SEQ}"
        if field not in BODIES:
            ((value,),) = self.execute(f"select {column} {where} limit 1", job_id)
            return value
        sql = f"select {column}_encoding, {column}, {column}_bytes {where}"
        ((number, text, data),) = self.execute(sql, job_id)
        return Body(text.encode() if data is None else data, ENCODINGS[number])

    def put(self, field: str, job_id: str, value: Any) -> None:
        table, column = _POSTGRES[field]
        if field not in BODIES:
            sql = f"update fencepost.{table} set {column} = ? where seq = {_SEQ}"
            self.execute(sql, value, job_id)
            return
        columns = f"{column}_encoding = ?, {column} = ?, {column}_bytes = ?"
        sql = f"update fencepost.{table} set {columns}"
        data, number = (None, None) if value is None else _stored(value)
        row: tuple[Any, ...] = (number, None, data)
        if data is not None and number == 0:
            row = (number, data.decode(), None)
        self.execute(f"{sql} where seq = {_SEQ}", *row, job_id)

    def dress(self, job_id: str, like: str) -> None:
        lane = "(select lane from fencepost.submissions where id = ?::uuid)"
        for table in ("submissions", "ready", "delayed"):
            sql = f"update fencepost.{table} set lane = {lane} where seq = {_SEQ}"
            self.execute(sql, like, job_id)

    def set_key(self, job_id: str, key: str | None) -> None:
        self.execute("update fencepost.submissions set key = ? where id = ?::uuid", key, job_id)

    def set_version(self, job_id: str, version: int) -> None:
        self.execute(
            f"update fencepost.done set lease_version = ? where seq = {_SEQ}", version, job_id
        )

    def end_as(self, job_id: str, state: State) -> None:
        sql = f"update fencepost.done set state = ? where seq = {_SEQ}"
        self.execute(sql, NUMBER[state], job_id)


_SEQ = "(select seq from fencepost.submissions where id = ?::uuid)"
_POSTGRES = {
    "payload": ("submissions", "payload"),
    "result": ("done", "result"),
    "checkpoint": ("saved", "checkpoint"),
    "failure": ("attempts", "failure"),  # where the job's own is, until it has ended
    "attempt": ("attempts", "failure"),
    "progress": ("saved", "progress"),
    "callback": ("submissions", "callback_url"),
}


def _id(job_id: str) -> bytes:
    return id_bytes(job_id)


def _stored(body: Body) -> tuple[bytes, int]:
    return body.data, ENCODING_NUMBER[body.encoding]


# What the owner does.


def body(text: str) -> Body:
    return Body(f'"{text}"'.encode())


def submit(store: Store, **fields: Any) -> str:
    new = NewJob(**{"type": "pay", "queue": "bank", "payload": body(TRUE), **fields})
    (reply,) = store.run(store.queue.enqueue([new]))
    return reply.job_id


def claim(store: Store, *types: str) -> ClaimedJob:
    request = ClaimRequest(worker="w", limit=1, types=frozenset(types or ("pay",)))
    (job,) = store.run(store.queue.claim(request)).jobs
    return job


def save(store: Store, job: ClaimedJob, text: str = TRUE) -> None:
    fields = Save(job.id, job.lease.token, body(text), Progress(fraction=0.5, message=text), job)
    store.run(store.queue.save([fields]))


def settle(store: Store, job: ClaimedJob, outcome: Outcome) -> None:
    store.run(store.queue.settle([settlement_of(job, decide(job, outcome, store.clock.rng))]))


def tried(store: Store, **fields: Any) -> str:
    """Return a job that waits for its second attempt, with all that its first could write."""
    policy = Policy(max_attempts=3)
    job_id = submit(store, policy=policy, callback_url=HOOK, **fields)
    job = claim(store, fields.get("type", "pay"))
    save(store, job)
    settle(store, job, Failed(Failure(Category.TEMPORARY, TRUE, exception=TRUE, traceback=TRUE)))
    return job_id


def done(store: Store, **fields: Any) -> str:
    """Return a job that has completed."""
    job_id = submit(store, **fields)
    settle(store, claim(store, fields.get("type", "pay")), Succeeded(body(TRUE)))
    return job_id


def dead(store: Store, **fields: Any) -> str:
    """Return a job that has failed for good."""
    job_id = submit(store, **fields)
    settle(store, claim(store), Failed(Failure(Category.PERMANENT, TRUE)))
    return job_id


def having(store: Store, field: str, **fields: Any) -> str:
    """Return a job that has this field."""
    return done(store, **fields) if field == "result" else tried(store, **fields)


def look(store: Store, job_id: str) -> Job:
    (job,) = store.run(store.reader.get([job_id]))
    assert job is not None
    return job


def read(store: Store, job_id: str, field: str) -> Any:
    """Return a field of a job as whoever looks at it is shown it."""
    job = look(store, job_id)
    match field:
        case "callback":
            return job.callback_url
        case "attempt":
            (attempt,) = store.run(store.reader.attempts(job_id)) or []
            return attempt.failure
        case _:
            return getattr(job, f"{field}_body" if field in BODIES else field)


def forged(field: str) -> Any:
    """Return what somebody without keys would store in the place of a field."""
    match field:
        case "failure" | "attempt":
            return f'{{"category":"permanent","message":"{FORGED}","traceback":"{FORGED}"}}'
        case "progress":
            return f'{{"fraction":0.5,"message":"{FORGED}"}}'
        case "callback":
            return f"https://example.net/{FORGED}"
        case _:
            return body(FORGED)


def is_shown(value: Any) -> bool:
    """Tell whether anything that was written, by whomever, can be read in *value*."""
    if isinstance(value, Body) and value.encoding is not Encoding.ENCRYPTED:
        return True
    return any(text in repr(value) for text in (TRUE, FORGED, "example.com", "example.net"))


def bare(job: Job) -> Job:
    """Return *job* without what changes when nothing of it does."""
    return replace(job, updated_at=job.created_at)
