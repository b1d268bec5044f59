"""Workers with the keys, without them, and with the wrong ones: no job is lost, none loops."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.worker import completing, isolated
from tests.worker.support import drain, eventually

from fencepost import (
    App,
    Category,
    ConfigurationError,
    Context,
    EncryptionKey,
    JobFailedError,
    JobHandle,
    MissingKeyError,
    PermanentError,
    PlainContentError,
    Retry,
    State,
    TamperedError,
    TaskHandle,
)
from fencepost.core.encryption import REFUSE, Plain
from fencepost.core.job.job import Encoding

pytestmark = pytest.mark.usefixtures("never_late")

OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
CANARY = "canary-7c1f"
AGAIN = Retry(max_attempts=2, initial_delay=0.01)


def shout(ctx: Context, text: str) -> str:
    if ctx.attempt == 1 and text.startswith("checkpoint"):
        ctx.checkpoint({"seen": text})
        ctx.progress(0.5, text)
        raise ValueError(text)
    return f"{text} {ctx.last_checkpoint}"


def refuse(text: str) -> None:
    raise PermanentError(text, code="declined")


@contextmanager
def opened(path: Path, keys: Any = None) -> Iterator[tuple[App, TaskHandle[..., Any]]]:
    with App(f"sqlite:///{path}/jobs.db", retry=AGAIN, keys=keys) as app:
        yield app, app.task(shout)


def bare(path: Path, job: JobHandle[Any]) -> JobHandle[Any]:
    """Return *job* as an app without keys sees it."""
    return App(f"sqlite:///{path}/jobs.db").jobs.get(job.id)


def failure(job: JobHandle[Any]) -> tuple[State, Category, str | None]:
    found = job.refresh()
    assert found.failure is not None
    return found.state, found.failure.category, found.failure.code


async def test_a_job_runs_as_it_would_without_encryption(tmp_path: Path) -> None:
    with opened(tmp_path, [NEW]) as (app, task):
        job = task.submit(f"checkpoint {CANARY}")
        await drain(app)
        await eventually(
            lambda: app.store.run(app.store.upkeep.promote(10)) or job.refresh().result_body
        )
        await drain(app)
        assert job.result(0) == f"checkpoint {CANARY} {{'seen': 'checkpoint {CANARY}'}}"
        (first, _) = job.attempts()
        assert first.failure is not None
        assert first.failure.message == f"checkpoint {CANARY}"
        assert "ValueError" in (first.failure.traceback or "")
    assert CANARY.encode() not in (tmp_path / "jobs.db").read_bytes()


@pytest.mark.parametrize("keys", [None, [OLD]])
async def test_without_the_key_a_job_is_retried_and_then_a_dead_letter_that_says_why(
    tmp_path: Path, keys: Any
) -> None:
    with opened(tmp_path, [NEW]) as (rich, task):
        job = task.submit("hello")
        with opened(tmp_path, keys) as (poor, _):
            await drain(poor)
            seen = poor.jobs.get(job.id).refresh()
            assert "'new'" in (seen.failure.message if seen.failure else "")
            # The second attempt follows at once; the first worker may have made it, too.
            await eventually(
                lambda: (
                    poor.store.run(poor.store.upkeep.promote(10)) or job.refresh().state.is_terminal
                ),
                "its next attempt",
            )
            await drain(poor)
            assert failure(job) == (State.DEAD_LETTER, Category.SYSTEM, "key_missing")
            failures = [attempt.failure for attempt in job.attempts()]
            assert [each.code if each else None for each in failures] == ["key_missing"] * 2
        # With the key at hand, nothing is lost: the same job again, or a fresh one.
        rich.jobs.retry(job.id)
        await drain(rich)
        assert job.result(0) == "hello None"


async def test_a_dead_letter_is_replayed_once_the_key_is_there(tmp_path: Path) -> None:
    with opened(tmp_path, [OLD]) as (_, task):
        job = task.submit("hello")
    with opened(tmp_path, [NEW]) as (poor, _):
        poor.store.run(poor.store.queue.claim(_a_claim()))
        poor.jobs.cancel(job.id)
        poor.jobs.retry(job.id, reset_attempts=False)
        await drain(poor)
        with pytest.raises(MissingKeyError, match="'old'"):
            poor.dead_letters.replay(job.id)
        with pytest.raises(MissingKeyError, match="'old'"):
            await poor.aio.dead_letters.replay(job.id)
        assert poor.dead_letters.replay_all() == 0
        assert len(poor.dead_letters.list()) == 1
    with opened(tmp_path, [NEW, OLD]) as (both, _):
        fresh = both.dead_letters.replay(job.id)
        await drain(both)
        assert fresh.result(0) == "hello None"


def _a_claim() -> Any:
    from fencepost.store.interface.queue import ClaimRequest

    return ClaimRequest(worker="w", limit=1)


async def test_a_body_that_was_altered_fails_its_job_at_once(tmp_path: Path) -> None:
    with opened(tmp_path, [NEW]) as (app, task):
        good, bad = task.submit("good"), task.submit("bad")
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
            connection.execute("update jobs set payload = (select payload from jobs where seq = 1)")
        await drain(app)
        assert good.result(0) == "good None"
        assert failure(bad) == (State.FAILED, Category.PERMANENT, "corrupt")
        with pytest.raises(TamperedError):
            app.dead_letters.replay(bad.id)


async def test_a_result_without_its_key_names_the_key(tmp_path: Path) -> None:
    with opened(tmp_path, [NEW]) as (app, task):
        job = task.submit("hello")
        await drain(app)
    seen = bare(tmp_path, job)
    assert seen.refresh().payload_body.encoding is Encoding.ENCRYPTED
    for look in (seen.result, bare(tmp_path, job).result):
        with pytest.raises(MissingKeyError, match="'new'") as caught:
            look(0)
        assert caught.value.code == "key_missing"
    with pytest.raises(MissingKeyError):
        await seen.aio.result(0)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("update jobs set result = payload")
    with opened(tmp_path, [NEW]) as (app, _), pytest.raises(TamperedError):
        app.jobs.get(job.id).result(0)


async def test_a_failure_without_its_key_says_so_in_a_few_words(tmp_path: Path) -> None:
    with opened(tmp_path, [NEW]) as (app, _):
        job = app.task(refuse).submit(CANARY)
        await drain(app)
        with pytest.raises(JobFailedError, match=CANARY):
            job.result(0)
    seen = bare(tmp_path, job)
    with pytest.raises(JobFailedError, match=r"encrypted \(key new\)") as caught:
        seen.result(0)
    assert caught.value.failure_code == "declined"
    assert seen.why()[0].text.endswith("permanent: encrypted (key new)")


async def test_a_child_process_encrypts_what_its_handler_saves(tmp_path: Path) -> None:
    """It is given the keys by its worker, not by its environment."""
    with App(f"sqlite:///{tmp_path}/jobs.db", retry=AGAIN, keys=[NEW]) as app:
        job = app.task(isolation="process")(isolated.resume).submit()
        await drain(app)
        seen = bare(tmp_path, job).refresh()
        assert seen.checkpoint_body is not None
        assert seen.checkpoint_body.encoding is Encoding.ENCRYPTED

        def is_on_its_way() -> bool:  # the worker may have come to its next attempt by itself
            promoted = app.store.run(app.store.upkeep.promote(10))
            return bool(promoted) or job.refresh().state is not State.RETRYING

        await eventually(is_on_its_way, "its next attempt")
        await drain(app)
        assert job.result(0) == [{"page": 7}, 2, True]


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_job_completed_in_a_transaction_of_its_handlers_is_encrypted(
    postgres_url: str, isolation: Any
) -> None:
    with psycopg.connect(postgres_url) as conn:
        conn.execute("create table ledger (job uuid, attempt integer)")
    with App(postgres_url, keys=[NEW], retry=Retry.none()) as app:
        app.migrate()
        task = app.task(isolation=isolation)(completing.complete)
        with psycopg.connect(postgres_url) as conn:
            job = task.using(conn=conn, queue="other").submit(postgres_url)
        other = await app.task(completing.complete_async).aio.submit(postgres_url)
        await drain(app)
        assert (job.result(0), await other.result(0)) == ("from within", "from within")
        with psycopg.connect(postgres_url) as conn:
            stored = conn.execute("select result, result_bytes from fencepost.done").fetchall()
            query = "select payload, payload_bytes from fencepost.submissions"
            payloads = conn.execute(query).fetchall()
        for text, data in (*stored, *payloads):
            assert text is None
            assert data.startswith(b"FPE\x01\x03new")
            assert b"from within" not in data


def test_keys_come_from_the_environment_unless_they_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert App("memory://").store.keys is None
    monkeypatch.setenv("FENCEPOST_KEYS", f"{NEW.text},{OLD.text}")
    ring = App("memory://").store.keys
    assert ring is not None
    assert ring.ids == ("new", "old")
    assert App("memory://", keys=[OLD]).session.keys != ring
    monkeypatch.setenv("FENCEPOST_KEYS", "")
    assert App("memory://").store.keys is None
    monkeypatch.setenv("FENCEPOST_KEYS", " , ")
    with pytest.raises(ConfigurationError):
        App("memory://")


def test_a_store_that_is_given_is_encrypted_once(tmp_path: Path) -> None:
    with App("memory://", keys=[NEW]) as first:
        store = first.store
        with App("memory://", store=store, keys=[OLD]) as second:
            assert second.store.keys == store.keys
            job = second.task(shout).submit("hello")
            assert second.jobs.get(job.id).refresh().payload_body.data == b'{"text":"hello"}'


# Content that is not encrypted.


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_forged_payload_reaches_no_handler(tmp_path: Path, isolation: Any) -> None:
    """Encryption cannot be switched off from the database: the job fails at once, and says why."""
    with App(f"sqlite:///{tmp_path}/jobs.db", retry=AGAIN, keys=[NEW]) as app:
        job = app.task(isolation=isolation)(isolated.record).submit(str(tmp_path / "ran"), "owner")
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
            forged = json.dumps({"path": str(tmp_path / "ran"), "text": "forged"}).encode()
            connection.execute("update jobs set payload_encoding = 0, payload = ?", (forged,))
        await drain(app)
        assert failure(job) == (State.FAILED, Category.PERMANENT, "not_encrypted")
        assert job.refresh().attempt == 1
        assert not (tmp_path / "ran").exists()
        with pytest.raises(PlainContentError, match="FENCEPOST_PLAIN"):
            app.dead_letters.replay(job.id)


async def test_a_forged_result_is_returned_to_nobody(tmp_path: Path) -> None:
    with opened(tmp_path, [NEW]) as (app, task):
        job = task.submit("hello")
        await drain(app)
        assert job.result(0) == "hello None"
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
            connection.execute("update jobs set result_encoding = 0, result = '\"forged\"'")
            connection.execute("update jobs set result = cast(result as blob)")
        for look in (app.jobs.get(job.id).result, job.result):
            with pytest.raises(PlainContentError) as caught:
                look(0)
            assert caught.value.code == "not_encrypted"
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
            connection.execute("update jobs set result_encoding = null, result = null")
        with pytest.raises(TamperedError):
            app.jobs.get(job.id).result(0)


async def test_jobs_from_before_there_were_keys_run_while_that_is_accepted(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, task):
        job, late = task.submit("before"), task.using(delay=3600).submit("late")
    today = datetime.now(UTC).date()
    url = f"sqlite:///{tmp_path}/jobs.db"
    with App(url, keys=[NEW], plain=f"accept until {today + timedelta(days=1)}") as app:
        app.task(shout)
        await drain(app)
        assert app.jobs.get(job.id).result(0) == "before None"
    with App(url, keys=[NEW], plain=f"accept until {today - timedelta(days=1)}") as app:
        app.task(shout)
        app.jobs.retry(late.id)
        await drain(app)
        assert failure(app.jobs.get(late.id)) == (
            State.FAILED,
            Category.PERMANENT,
            "not_encrypted",
        )
        # What was encrypted meanwhile is read: the result, not the payload.
        assert app.jobs.get(job.id).result(0) == "before None"
        assert app.jobs.get(job.id).refresh().payload_body.encoding is Encoding.ENCRYPTED


def test_what_becomes_of_plain_content_comes_from_the_environment_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert App("memory://", keys=[NEW]).session.plain == REFUSE
    day = datetime.now(UTC).date() + timedelta(days=9)
    monkeypatch.setenv("FENCEPOST_PLAIN", f"accept until {day}")
    assert App("memory://", keys=[NEW]).session.plain == Plain(day)
    assert App("memory://", keys=[NEW], plain="refuse").session.plain == REFUSE
    App("memory://")  # without keys nothing is refused, and there is nothing to accept
    monkeypatch.setenv("FENCEPOST_PLAIN", "accept")
    with pytest.raises(ConfigurationError, match="accept until YYYY-MM-DD"):
        App("memory://", keys=[NEW])
    monkeypatch.delenv("FENCEPOST_PLAIN")
    for given in ("", "accept", "accept until 9999-12-31"):
        with pytest.raises(ConfigurationError, match="plain"):
            App("memory://", keys=[NEW], plain=given)
    with pytest.raises(ConfigurationError, match="there are no keys"):
        App("memory://", plain="refuse")
