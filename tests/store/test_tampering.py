"""What somebody who can write to the database achieves without a key: no content of theirs is read.

On real stores, by SQL, field by field; what encryption adds otherwise, ``test_encrypted`` shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.store.tampering import (
    BODIES,
    FORGED,
    HOOK,
    KEYS,
    TEXTS,
    TRUE,
    Database,
    PostgresDatabase,
    SqliteDatabase,
    body,
    claim,
    dead,
    done,
    forged,
    having,
    is_shown,
    look,
    read,
    save,
    settle,
    submit,
    tried,
)

from fencepost.core.encryption import REFUSED, REFUSED_TEXT, TAMPERED, Field, Plain, unreadable
from fencepost.core.events import NewEvent
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.flows.dependencies import check_dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, Category, Encoding, Failure, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Succeeded
from fencepost.core.job.policy import Policy
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.errors import PlainContentError, TamperedError
from fencepost.store.interface.control import Edit, RetryRequest, Sealed
from fencepost.store.interface.records.crons import CronDefinition
from fencepost.store.interface.store import Store

FIELDS = (*BODIES, *TEXTS)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    made: Database
    if request.param == "sqlite":
        made = SqliteDatabase(tmp_path / "jobs.db")
    else:
        fresh: FreshPostgres = request.getfixturevalue("fresh_postgres")
        made = PostgresDatabase(fresh(postgres_sources()[0]))
    yield made
    made.close()


@pytest.fixture
def store(database: Database) -> Store:
    return database.open()


def wait(store: Store) -> None:
    """Let the next attempt fall due."""
    store.clock.sleep(3600)


# Content that is not encrypted.


@pytest.mark.parametrize("field", FIELDS)
def test_what_is_not_encrypted_is_refused(database: Database, store: Store, field: str) -> None:
    """Each field of a job that comes from users; none of it is left out."""
    job_id = having(store, field)
    assert is_shown(read(store, job_id, field))
    database.put(field, job_id, forged(field))
    seen = read(store, job_id, field)
    assert not is_shown(seen)
    assert seen == REFUSED if field in BODIES else REFUSED_TEXT in repr(seen)


@pytest.mark.parametrize("field", FIELDS)
def test_what_is_not_encrypted_is_read_until_the_day_that_was_named(
    database: Database, field: str
) -> None:
    today = database.open().clock.now().date()
    store = database.open(KEYS, Plain(today))
    job_id = having(store, field)
    database.put(field, job_id, forged(field))
    assert FORGED in repr(read(store, job_id, field))
    over = database.open(KEYS, Plain(today - timedelta(days=1)))
    assert not is_shown(read(over, job_id, field))
    store.clock.sleep(86_400)
    assert not is_shown(read(store, job_id, field))


def test_every_field_that_is_encrypted_is_in_these_tables() -> None:
    """Those of jobs above; events, templates and deliveries have tests of their own."""
    names = {"attempt": "failure"}
    assert {names.get(name, name) for name in FIELDS} == set(Field) - {"event", "template", "patch"}


@pytest.mark.parametrize("field", ["payload", "checkpoint"])
def test_a_claimed_job_is_not_given_what_is_not_encrypted(
    database: Database, store: Store, field: str
) -> None:
    job_id = tried(store)
    database.put(field, job_id, forged(field))
    wait(store)
    given = getattr(claim(store), field)
    assert given is REFUSED
    assert isinstance(unreadable(given), PlainContentError)


def test_a_result_that_was_taken_away_is_no_result(database: Database, store: Store) -> None:
    """Who encrypts stores one with every job that completes, if only ``null``."""
    job_id = done(store)
    database.put("result", job_id, None)
    assert look(store, job_id).result_body == TAMPERED


def test_a_dead_letter_that_is_not_encrypted_is_not_replayed(
    database: Database, store: Store
) -> None:
    job_id = dead(store)
    database.put("payload", job_id, forged("payload"))
    assert store.run(store.control.replay([job_id, "nobody"]))[0] == Sealed(job_id)
    assert [
        each.job_id for each in store.run(store.reader.dead_letters(None, PageRequest(9))).letters
    ]


def test_a_dead_letter_shows_no_failure_that_is_not_encrypted(
    database: Database, store: Store
) -> None:
    dead(store)
    for table in (database.table("jobs"), database.table("done"), database.table("attempts")):
        if table in ("fencepost.jobs", "done"):
            continue  # they have no failures
        database.execute(f"update {table} set failure = ?", forged("failure"))
    (letter,) = store.run(store.reader.dead_letters(None, PageRequest(9))).letters
    assert letter.failure.message == REFUSED_TEXT
    assert letter.failure.traceback is None


@pytest.mark.parametrize("field", FIELDS)
def test_what_is_not_encrypted_is_not_copied_to_another_store(
    database: Database, store: Store, field: str
) -> None:
    """It would arrive there as content that somebody with keys has read and encrypted."""
    job_id = having(store, field)
    database.put(field, job_id, forged(field))
    with pytest.raises(PlainContentError, match=job_id):
        store.run(store.transfer.dump(0, 9))


def test_failures_that_a_store_records_itself_are_shown(store: Store) -> None:
    """It has no keys; one that says anything else than it does is refused."""
    cancelled, waiting = submit(store), submit(store, type="wait")
    store.run(store.control.cancel([cancelled]))
    behind = submit(store, after=check_dependencies([cancelled, waiting]))
    lost = submit(store, type="lost", policy=Policy(max_attempts=1))
    slow = submit(store, type="slow", policy=Policy(max_attempts=1, timeout=5.0))
    outlived = submit(store, type="old", policy=Policy(lifetime=60.0))
    claim(store, "lost")
    claim(store, "slow")
    store.clock.sleep(400)
    store.run(store.upkeep.recover(9))
    store.run(store.upkeep.expire(9))
    seen = [look(store, each).failure for each in (cancelled, behind, lost, slow, outlived)]
    assert [each.code if each else None for each in seen] == [
        "cancelled",
        "dependency_failed",
        "lease_expired",
        "execution_timeout",
        "lifetime_exceeded",
    ]
    assert REFUSED_TEXT not in repr(seen)


@pytest.mark.parametrize("code", ["lease_expired", "execution_timeout", "dependency_failed"])
def test_a_failure_does_not_pass_for_a_stores_own_by_its_code(
    database: Database, store: Store, code: str
) -> None:
    job_id = tried(store)
    text = f'{{"category":"system","message":"{FORGED}","code":"{code}"}}'
    database.put("attempt", job_id, text)
    assert read(store, job_id, "attempt").message == REFUSED_TEXT


# Ciphertexts that were moved.


@pytest.mark.parametrize("field", FIELDS)
def test_a_ciphertext_of_another_job_is_refused(
    database: Database, store: Store, field: str
) -> None:
    first, second = having(store, field), having(store, field)
    database.put(field, first, database.take(field, second))
    assert not is_shown(read(store, first, field))
    assert is_shown(read(store, second, field))


@pytest.mark.parametrize(("source", "target"), [*permutations(BODIES, 2)])
def test_a_body_in_the_place_of_another_is_refused(
    database: Database, store: Store, source: str, target: str
) -> None:
    job_id = submit(store)
    job = claim(store)
    save(store, job)
    settle(store, job, Succeeded(body(TRUE)))
    database.put(target, job_id, database.take(source, job_id))
    assert not is_shown(read(store, job_id, target))
    assert is_shown(read(store, job_id, source))


@pytest.mark.parametrize(
    ("source", "target"), [pair for pair in permutations(TEXTS, 2) if "attempt" not in pair]
)
def test_a_text_in_the_place_of_another_is_refused(
    database: Database, store: Store, source: str, target: str
) -> None:
    job_id = tried(store)
    taken, there = (str(database.take(each, job_id)) for each in (source, target))
    message = taken if source == "callback" else msgspec.json.decode(taken)["message"]
    if target == "callback":
        moved = message
    else:
        moved = msgspec.json.encode({**msgspec.json.decode(there), "message": message}).decode()
    database.put(target, job_id, moved)
    assert not is_shown(read(store, job_id, target))


@pytest.mark.parametrize("field", [each for each in FIELDS if each != "callback"])
@pytest.mark.parametrize("changed", ["type", "queue"])
def test_content_is_refused_under_another_type_or_queue(
    database: Database, store: Store, field: str, changed: str
) -> None:
    job_id = having(store, field)
    other = submit(store, **{changed: "other"})
    database.dress(job_id, other)
    again = database.open()  # which has looked at no lane yet
    assert getattr(look(again, job_id), changed) == "other"
    assert not is_shown(read(again, job_id, field))


@pytest.mark.parametrize("field", BODIES)
@pytest.mark.parametrize("keys", [("mine", "yours"), ("mine", None), (None, "yours")])
def test_content_is_refused_under_another_key(
    database: Database, store: Store, field: str, keys: tuple[str | None, str | None]
) -> None:
    """Handlers tell by it what they have done before."""
    mine, yours = keys
    job_id = having(store, field, key=None if mine is None else Key(mine))
    assert is_shown(read(store, job_id, field))
    database.set_key(job_id, yours)
    assert not is_shown(read(store, job_id, field))


@pytest.mark.parametrize("changed", ["type", "queue", "key"])
def test_a_claimed_job_is_not_given_what_was_meant_for_another(
    database: Database, store: Store, changed: str
) -> None:
    job_id = tried(store, key=Key("mine"))
    if changed == "key":
        database.set_key(job_id, "yours")
    else:
        database.dress(job_id, submit(store, **{changed: "other"}, delay=9999.0))
    wait(store)
    job = claim(database.open(), "pay", "other")
    assert job.id == job_id
    assert (job.payload, job.checkpoint) == (TAMPERED, TAMPERED)


# Attempts and states.


@pytest.mark.parametrize("step", [-1, 1])
def test_a_result_is_that_of_the_attempt_that_the_job_ended_with(
    database: Database, store: Store, step: int
) -> None:
    job_id = done(store)
    database.set_version(job_id, look(store, job_id).lease_version + step)
    result = look(store, job_id).result_body
    assert not is_shown(result)
    assert result is not None
    assert isinstance(unreadable(result, KEYS), TamperedError)


def test_failures_of_two_attempts_are_not_exchanged(database: Database, store: Store) -> None:
    job_id = tried(store)
    wait(store)
    settle(store, claim(store), Failed(Failure(Category.TEMPORARY, f"{TRUE} 2")))
    first, second = store.run(store.reader.attempts(job_id)) or []
    assert first.failure is not None
    assert second.failure is not None
    assert (first.failure.message, second.failure.message) == (TRUE, f"{TRUE} 2")
    table = database.table("attempts")
    found = dict(database.execute(f"select lease_version, failure from {table}"))
    for one, other in ((first, second), (second, first)):
        text = found[other.lease_version]
        sql = f"update {table} set failure = ? where lease_version = ?"
        database.execute(sql, text, one.lease_version)
    assert not is_shown([each.failure for each in store.run(store.reader.attempts(job_id)) or []])


def test_a_checkpoint_of_a_later_attempt_is_refused_in_an_earlier_one(
    database: Database, store: Store
) -> None:
    """A row that was put back to what it once was, with what was saved since."""
    job_id = tried(store)
    wait(store)
    job = claim(store)
    save(store, job, f"{TRUE} 2")
    later = database.take("checkpoint", job_id)
    settle(store, job, Failed(Failure(Category.PERMANENT, TRUE)))
    assert is_shown(read(store, job_id, "checkpoint"))
    assert database.take("checkpoint", job_id) == later
    database.set_version(job_id, job.last_version)
    assert not is_shown(read(store, job_id, "checkpoint"))


@pytest.mark.parametrize("source", ["payload", "checkpoint", None])
def test_a_job_that_failed_is_not_turned_into_one_with_a_result(
    database: Database, store: Store, source: str | None
) -> None:
    job_id = submit(store)
    job = claim(store)
    save(store, job)
    settle(store, job, Failed(Failure(Category.PERMANENT, TRUE)))
    taken = None if source is None else database.take(source, job_id)
    database.end_as(job_id, State.COMPLETED)
    database.put("result", job_id, taken)
    seen = look(store, job_id)
    assert seen.state is State.COMPLETED
    assert seen.result_body is not None
    assert seen.result_body.encoding is Encoding.ENCRYPTED
    assert isinstance(unreadable(seen.result_body, KEYS), TamperedError)


def test_a_job_that_did_not_complete_has_no_result(database: Database, store: Store) -> None:
    job_id = done(store)
    database.end_as(job_id, State.FAILED)
    assert look(store, job_id).result_body == TAMPERED


# What other jobs are given.


@pytest.mark.parametrize("how", ["plain", "another's", "none"])
def test_the_result_of_a_dependency_is_refused_as_a_jobs_own_is(
    database: Database, store: Store, how: str
) -> None:
    first, other = done(store), done(store)
    waiting = submit(store, after=check_dependencies([first, other]))
    given = {"plain": body(FORGED), "another's": database.take("result", other), "none": None}
    database.put("result", first, given[how])
    ((one, two),) = store.run(store.reader.dependencies([waiting], with_results=True))
    assert one.result is not None
    assert one.result.encoding is Encoding.ENCRYPTED
    assert two.result == body(TRUE)


# Webhooks.


def delivered(store: Store) -> tuple[str, str]:
    """Return a job that has ended, and the delivery that tells of it."""
    before = set(deliveries(store))
    ended = done(store, callback_url=HOOK)
    (delivery,) = set(deliveries(store)) - before
    return ended, delivery


def deliveries(store: Store) -> list[str]:
    page = store.run(store.reader.find(JobFilter(type=DELIVERY_TYPE), PageRequest(9)))
    return [job.id for job in page.jobs]


def test_an_address_is_decrypted_for_its_delivery(database: Database, store: Store) -> None:
    ended, delivery = delivered(store)
    assert HOOK not in repr(database.take("payload", delivery))
    assert "example.com" not in repr(database.take("callback", ended))
    assert look(store, ended).callback_url == HOOK
    assert msgspec.json.decode(look(store, delivery).payload_body.data)["url"] == HOOK
    given = msgspec.json.decode(claim(store, DELIVERY_TYPE).payload.data)
    assert (given["url"], given["job_id"], given["state"]) == (HOOK, ended, "completed")


@pytest.mark.parametrize("how", ["plain", "another's"])
def test_nothing_is_delivered_to_an_address_that_was_put_in(
    database: Database, store: Store, how: str
) -> None:
    """Neither in the job, from where the store copies it, nor in the delivery."""
    other = submit(store, type="other", callback_url=HOOK)
    addresses = {"plain": forged("callback"), "another's": database.take("callback", other)}
    job_id = submit(store, callback_url=HOOK)
    database.put("callback", job_id, addresses[how])
    settle(store, claim(store), Succeeded(body(TRUE)))
    given = claim(store, DELIVERY_TYPE).payload
    assert given is (REFUSED if how == "plain" else TAMPERED)
    _, delivery = delivered(store)
    payload = msgspec.json.decode(database.take("payload", delivery).data)
    payload["url"] = addresses[how]
    database.put("payload", delivery, Body(msgspec.json.encode(payload)))
    given = claim(store, DELIVERY_TYPE).payload
    assert given is (REFUSED if how == "plain" else TAMPERED)


def test_an_address_that_is_edited_or_replayed_is_encrypted_for_its_job(
    database: Database, store: Store
) -> None:
    job_id = submit(store)
    store.run(store.control.edit([Edit(job_id, callback_url=HOOK)]))
    assert "example.com" not in repr(database.take("callback", job_id))
    settle(store, claim(store), Failed(Failure(Category.PERMANENT, TRUE)))
    (reply,) = store.run(store.control.replay([job_id]))
    fresh = getattr(reply, "job_id", "")
    assert look(store, fresh).callback_url == HOOK
    assert look(store, fresh).payload_body == body(TRUE)
    assert database.take("callback", fresh) != database.take("callback", job_id)


# Events and crons.


@pytest.mark.parametrize("how", ["plain", "another's"])
def test_the_record_of_an_event_is_refused_as_a_job_is(
    database: Database, store: Store, how: str
) -> None:
    for _ in range(2):
        store.run(store.events.send(NewEvent("user.created", body(TRUE)), []))
    table = database.table("events")
    is_postgres = table.startswith("fencepost")
    if how == "another's":
        column = "payload_bytes" if is_postgres else "payload"
        database.execute(
            f"update {table} set {column} = (select {column} from {table} where seq = 1)"
        )
        expected = [False, True]  # newest first
    else:
        database.execute(
            f"update {table} set payload_encoding = 0, payload = ?, payload_bytes = null"
            if is_postgres
            else f"update {table} set payload_encoding = 0, payload = cast(? as blob)",
            f'"{FORGED}"',
        )
        expected = [False, False]
    found = store.run(store.events.list(None, PageRequest(9))).events
    assert [is_shown(each.payload) for each in found] == expected


@pytest.mark.parametrize("how", ["plain", "another's"])
def test_the_template_of_a_cron_is_refused_as_a_job_is(
    database: Database, store: Store, how: str
) -> None:
    template = NewJob(type="pay", queue="bank", payload=body(TRUE), callback_url=HOOK)
    crons = [
        CronDefinition(
            name=name, expression="* * * * *", tz="UTC", template=template, next_tick=None
        )
        for name in ("one", "two")
    ]
    store.run(store.crons.declare(crons))
    assert [each.template for each in store.run(store.crons.list()).crons] == [template, template]
    table = database.table("crons")
    if how == "plain":
        database.execute(f"update {table} set template = ?", msgspec.json.encode(template).decode())
    else:
        ((text,),) = database.execute(f"select template from {table} where name = 'two'")
        assert "example.com" not in text
        database.execute(f"update {table} set template = ?", text)
    one, two = (each.template for each in store.run(store.crons.list()).crons)
    assert is_shown(two) is (how == "another's")
    assert not is_shown(one)
    assert one is not None
    assert one.payload.encoding is Encoding.ENCRYPTED
    # The app that knows it says what it is, and sets it right.
    store.run(store.crons.declare(crons))
    assert [each.template for each in store.run(store.crons.list()).crons] == [template, template]


# And all stays as it was for those who change nothing.


def test_what_may_change_about_a_job_does_not_make_it_unreadable(
    database: Database, store: Store
) -> None:
    """Edits, retries by hand, and the result of an attempt after others that failed."""
    job_id = tried(store, key=Key("mine"))
    store.run(
        store.control.edit([Edit(job_id, tags={"a": "b"}, correlation_id="c", payload=body(TRUE))])
    )
    wait(store)
    job = claim(store)
    assert (job.payload, job.checkpoint) == (body(TRUE), body(TRUE))
    settle(store, job, Failed(Failure(Category.PERMANENT, TRUE)))
    store.run(store.control.retry([RetryRequest(job_id)]))
    job = claim(store)
    assert (job.payload, job.checkpoint) == (body(TRUE), body(TRUE))
    settle(store, job, Succeeded(body(TRUE)))
    assert look(database.open(), job_id).result_body == body(TRUE)
