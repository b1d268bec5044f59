"""What encryption adds to a store: nothing readable at rest, nothing that can be moved or altered.

That all else stays as it is, ``test_encrypted_conformance`` shows.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.encryption import (
    REFUSE,
    TAMPERED,
    EncryptionKey,
    KeyRing,
    Plain,
    from_text,
    key_id_of,
)
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.idempotency import Key
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
from fencepost.core.job.outcome import Failed, Outcome, Settlement, Succeeded, decide
from fencepost.core.job.policy import Policy
from fencepost.core.values.names import id_bytes
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.errors import ConfigurationError, StoreUnavailableError
from fencepost.store.interface.control import (
    Edit,
    Edited,
    NotFound,
    Replay,
    Replayed,
    RetryRequest,
    Sealed,
)
from fencepost.store.interface.queue import ClaimRequest, Save
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation
from fencepost.store.sqlite.store import SqliteStore
from fencepost.store.wrappers.encrypted import encrypted
from fencepost.testing.clock import FakeClock

OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
OLD_ONLY, NEW_ONLY, BOTH = KeyRing((OLD,)), KeyRing((NEW,)), KeyRing((NEW, OLD))
CANARY = "canary-7c1f"
SECRET = Body(f'"{CANARY}"'.encode())
HOOK = f"https://example.com/{CANARY}"
TROUBLE = Failure(
    Category.PERMANENT, f"{CANARY} m", code="declined", exception=f"{CANARY} e", traceback=CANARY
)


class Rig:
    """One SQLite file, opened with whatever keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        self._opened: list[Store] = []

    def open(self, keys: KeyRing | None, plain: Plain = REFUSE) -> Store:
        store: Store = SqliteStore(str(self.path), clock=self.clock)
        self._opened.append(store)
        return store if keys is None else encrypted(store, keys, plain)

    def close(self) -> None:
        for store in self._opened:
            store.close()

    def bytes(self) -> bytes:
        files = [self.path, *self.path.parent.glob(f"{self.path.name}-*")]
        return b"".join(each.read_bytes() for each in files)

    def sql(self, statement: str, *params: Any) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, params).fetchall()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "jobs.db")
    yield made
    made.close()


def submit(store: Store, **fields: Any) -> str:
    new = NewJob(**{"type": "mail", "payload": SECRET, **fields})
    (reply,) = store.run(store.queue.enqueue([new]))
    return reply.job_id


def claim(store: Store) -> ClaimedJob:
    (job,) = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    return job


def settle(store: Store, held: ClaimedJob, outcome: Outcome, **fields: Any) -> Any:
    decision = decide(held, outcome, store.clock.rng)
    settlement = Settlement(held.id, held.lease.token, decision, **fields)
    return store.run(store.queue.settle([settlement]))[0]


def look(store: Store, job_id: str) -> Job:
    (job,) = store.run(store.reader.get([job_id]))
    assert job is not None
    return job


def kill(store: Store, **fields: Any) -> str:
    """Return the id of a dead letter."""
    job_id = submit(store, **fields)
    settle(store, claim(store), Failed(TROUBLE))
    return job_id


def live_through_everything(store: Store) -> None:
    """Leave something of every kind in the store."""
    submit(store)
    job = claim(store)
    store.run(
        store.queue.save(
            [Save(job.id, job.lease.token, SECRET, Progress(fraction=0.5, message=CANARY), job)]
        )
    )
    settle(store, job, Succeeded(SECRET), job=job)
    kill(store)
    (dead,) = store.run(store.reader.dead_letters(None, PageRequest(9))).letters
    store.run(store.control.replay([dead.job_id]))
    retried = kill(store)
    store.run(store.control.retry([RetryRequest(retried)]))
    settle(store, claim(store), Succeeded(SECRET))
    kill(store, callback_url=HOOK)


# Nothing readable.


def test_nothing_that_a_user_put_into_a_job_can_be_read_in_the_file(rig: Rig) -> None:
    """S1-95. Of a store without keys all of it can, so the test would notice."""
    live_through_everything(rig.open(None))
    assert CANARY.encode() in rig.bytes()
    rig.close()
    other = Rig(rig.path.with_name("encrypted.db"))
    live_through_everything(other.open(BOTH))
    assert CANARY.encode() not in other.bytes()
    other.close()
    assert CANARY.encode() not in other.bytes()


def test_what_operators_search_and_group_by_stays_readable(rig: Rig) -> None:
    job_id = kill(rig.open(NEW_ONLY), tags={"t": "1"}, correlation_id="c")
    bare = rig.open(None)
    job = look(bare, job_id)
    assert (job.type, job.tags, job.correlation_id) == ("mail", {"t": "1"}, "c")
    assert job.failure is not None
    assert (job.failure.category, job.failure.code) == (Category.PERMANENT, "declined")
    assert (job.failure.exception, job.failure.traceback) == (None, None)
    assert from_text(job.failure.message) is not None
    assert bare.run(bare.reader.count(JobFilter(tags={"t": "1"}))) == 1


def test_two_equal_payloads_look_different(rig: Rig) -> None:
    """A fresh nonce each time: equal ciphertexts would tell of equal contents."""
    store = rig.open(NEW_ONLY)
    for _ in range(3):
        submit(store)
    assert len(set(rig.sql("select payload from jobs"))) == 3


def test_a_payload_that_is_edited_is_encrypted_for_its_job(rig: Rig) -> None:
    """C46: content, as that of a submission; an id in capitals names the same job."""
    store = rig.open(NEW_ONLY)
    job_id, other = submit(store), Body(b'"an edited secret"')
    for named in (job_id, job_id.upper()):
        (reply,) = store.run(store.control.edit([Edit(named, payload=other)]))
        assert isinstance(reply, Edited)
        assert reply.job.payload_body == other
        assert b"an edited secret" not in rig.bytes()
        assert look(store, job_id).payload_body == other
    assert claim(store).payload == other


# Nothing that can be moved or altered.


def test_a_ciphertext_moved_to_another_job_does_not_open(rig: Rig) -> None:
    store = rig.open(NEW_ONLY)
    first, second = submit(store), submit(store)
    ((payload,),) = rig.sql("select payload from jobs where id = ?", id_bytes(first))
    rig.sql("update jobs set payload = ? where id = ?", payload, id_bytes(second))
    assert look(store, first).payload_body == SECRET
    assert look(store, second).payload_body.encoding is Encoding.ENCRYPTED
    jobs = store.run(store.queue.claim(ClaimRequest(worker="w", limit=2))).jobs
    assert [job.payload for job in jobs] == [SECRET, TAMPERED]


def test_a_ciphertext_under_another_type_does_not_open(rig: Rig) -> None:
    store = rig.open(NEW_ONLY)
    submit(store, type="mail")
    submit(store, type="pay")
    rig.sql("update jobs set lane = 3 - lane")
    store = rig.open(NEW_ONLY)
    jobs = store.run(store.queue.claim(ClaimRequest(worker="w", limit=2))).jobs
    assert [job.payload for job in jobs] == [TAMPERED, TAMPERED]


def test_a_payload_put_in_the_place_of_a_result_or_checkpoint_does_not_open(rig: Rig) -> None:
    store = rig.open(NEW_ONLY)
    job_id = submit(store)
    settle(store, claim(store), Succeeded(Body(b"1")))
    rig.sql("update jobs set result = payload, checkpoint = payload, checkpoint_encoding = 2")
    job = look(store, job_id)
    assert job.payload_body == SECRET
    assert job.result_body is not None
    assert job.checkpoint_body is not None
    assert {job.result_body.encoding, job.checkpoint_body.encoding} == {Encoding.ENCRYPTED}


def test_failures_and_progress_do_not_open_in_each_others_place(rig: Rig) -> None:
    store = rig.open(NEW_ONLY)
    submit(store, policy=Policy(max_attempts=2))
    job = claim(store)
    store.run(
        store.queue.save(
            [Save(job.id, job.lease.token, None, Progress(fraction=0.5, message=CANARY))]
        )
    )
    settle(store, job, Failed(Failure(Category.TEMPORARY, CANARY)))
    seen = look(store, job.id)
    assert seen.failure is not None
    assert seen.progress is not None
    assert (seen.failure.message, seen.progress["message"]) == (CANARY, CANARY)
    bare = look(rig.open(None), job.id)
    assert bare.progress is not None
    failure = f'{{"category":"temporary","message":"{bare.progress["message"]}"}}'
    rig.sql("update jobs set failure = ?", failure)
    swapped = look(store, job.id)
    assert swapped.failure is not None
    assert from_text(swapped.failure.message) is not None


@pytest.mark.parametrize("at", [0, 3, 5, 8, 12, 25, -1])
def test_a_ciphertext_with_one_bit_changed_does_not_open(rig: Rig, at: int) -> None:
    store = rig.open(NEW_ONLY)
    submit(store)
    ((payload,),) = rig.sql("select payload from jobs")
    bent = bytearray(payload)
    bent[at] ^= 1
    rig.sql("update jobs set payload = ?", bytes(bent))
    job = claim(store)
    # A key id that is bent may name another key: that one is missing.
    is_in_key_id = 5 <= at < 8
    assert (job.payload.data == bytes(bent)) if is_in_key_id else (job.payload is TAMPERED)


@pytest.mark.parametrize("is_given", [True, False])
def test_a_job_that_is_looked_up_is_bound_like_one_that_is_given(rig: Rig, is_given: bool) -> None:
    """A worker knows the job that it settles; others need not, and none can mix them up."""
    store = rig.open(NEW_ONLY)
    for number in range(2):
        submit(store, key=Key(f"k{number}") if number else None)
        job = claim(store)
        given = job if is_given else None
        store.run(store.queue.save([Save(job.id.upper(), job.lease.token, SECRET, job=given)]))
        settle(store, job, Succeeded(SECRET), job=given)
        assert (look(store, job.id).result_body, look(store, job.id).checkpoint_body) == (
            SECRET,
            SECRET,
        )


# Keys that come and go.


def test_after_a_rotation_the_new_key_encrypts_and_the_old_one_still_decrypts(rig: Rig) -> None:
    before = submit(rig.open(OLD_ONLY))
    store = rig.open(BOTH)
    after = submit(store)
    assert (look(store, before).payload_body, look(store, after).payload_body) == (SECRET, SECRET)
    bare = rig.open(None)
    assert key_id_of(look(bare, before).payload_body) == "old"
    assert key_id_of(look(bare, after).payload_body) == "new"


def test_what_was_stored_before_there_were_keys_is_read_while_that_is_accepted(rig: Rig) -> None:
    before = kill(rig.open(None))
    store = rig.open(NEW_ONLY, Plain(rig.clock.now().date()))
    assert look(store, before).payload_body == SECRET
    assert look(store, before).failure == TROUBLE
    store.run(store.control.retry([RetryRequest(before)]))
    assert claim(store).payload == SECRET


@pytest.mark.parametrize("keys", [None, OLD_ONLY])
def test_looking_never_fails_for_want_of_a_key(rig: Rig, keys: KeyRing | None) -> None:
    full = rig.open(NEW_ONLY)
    live_through_everything(full)
    store = rig.open(keys)
    page = store.run(store.reader.find(JobFilter(), PageRequest(99)))
    assert [job.type for job in page.jobs] == [DELIVERY_TYPE, *["mail"] * 5]
    assert {job.payload_body.encoding for job in page.jobs[1:]} == {Encoding.ENCRYPTED}
    assert {key_id_of(job.payload_body) for job in page.jobs[1:]} == {"new"}
    assert CANARY not in repr(page)
    for job in page.jobs:
        assert store.run(store.reader.situation(job.id)) is not None
        assert store.run(store.reader.attempts(job.id)) is not None
    (reply,) = store.run(store.control.edit([Edit(page.jobs[0].id, tags={"a": "b"})]))
    assert isinstance(reply, Edited)


def test_a_claim_without_the_key_hands_the_job_out_as_it_is(rig: Rig) -> None:
    """The worker then fails the attempt, see ``tests/worker/test_encryption.py``."""
    submit(rig.open(NEW_ONLY))
    payload = claim(rig.open(OLD_ONLY)).payload
    assert payload.encoding is Encoding.ENCRYPTED
    assert key_id_of(payload) == "new"


# Replaying.


def test_a_replayed_job_can_be_read_and_is_bound_to_its_own_id(rig: Rig) -> None:
    """S3-26."""
    dead = kill(rig.open(OLD_ONLY))
    store = rig.open(BOTH)
    (reply,) = store.run(store.control.replay([dead]))
    assert isinstance(reply, Replayed)
    assert look(store, reply.job_id).payload_body == SECRET
    assert claim(store).payload == SECRET
    bare = rig.open(None)
    assert key_id_of(look(bare, reply.job_id).payload_body) == "new"
    assert look(bare, reply.job_id).payload_body != look(bare, dead).payload_body


@pytest.mark.parametrize("keys", [None, OLD_ONLY])
def test_without_the_key_a_dead_letter_is_not_replayed_and_stays(
    rig: Rig, keys: KeyRing | None
) -> None:
    """A copy of the ciphertext would be a job that nobody could ever run."""
    store = rig.open(NEW_ONLY)
    dead = kill(store)
    poor = rig.open(keys)
    assert poor.run(poor.control.replay([dead, dead.upper()])) == [Sealed(dead), Sealed(dead)]
    assert [
        each.job_id for each in store.run(store.reader.dead_letters(None, PageRequest(9))).letters
    ]
    assert store.run(store.reader.count(JobFilter())) == 1


def test_many_dead_letters_are_replayed_in_one_transaction(rig: Rig) -> None:
    store = rig.open(NEW_ONLY)
    jobs = [NewJob(type="mail", payload=SECRET)] * 250
    store.run(store.queue.enqueue(jobs))
    claimed = store.run(store.queue.claim(ClaimRequest(worker="w", limit=250))).jobs
    decision = decide(claimed[0], Failed(TROUBLE), rig.clock.rng)
    store.run(store.queue.settle([Settlement(j.id, j.lease.token, decision) for j in claimed]))
    replies = store.run(store.control.replay([*(job.id for job in claimed), "nobody"]))
    assert replies.pop() == NotFound("nobody")
    assert {type(reply) for reply in replies} == {Replayed}
    fresh = store.run(store.queue.claim(ClaimRequest(worker="w", limit=250))).jobs
    assert [job.payload for job in fresh] == [SECRET] * 250


def test_a_replay_that_breaks_off_leaves_the_dead_letter(rig: Rig) -> None:
    """S3-27: the look at the payload and the replay are one transaction."""
    store = rig.open(NEW_ONLY)
    dead = kill(store)
    with (
        patch("fencepost.store.sqlite.jobs.control.RECORD_SUCCESSOR", "select no_such_column"),
        pytest.raises((sqlite3.Error, StoreUnavailableError)),
    ):
        store.run(store.control.replay([dead]))
    assert store.run(store.reader.count(JobFilter())) == 1
    (reply,) = store.run(store.control.replay([dead]))
    assert isinstance(reply, Replayed)


def test_a_request_may_bring_the_fresh_jobs_id_and_payload(rig: Rig) -> None:
    fresh_id, other = rig.clock.new_id(), Body(b"7")
    for store in (rig.open(None), rig.open(NEW_ONLY), MemoryStore(clock=rig.clock)):
        dead = kill(store)
        (reply,) = store.run(store.control.replay([Replay(dead, fresh_id, other)]))
        assert isinstance(reply, Replayed)
        assert id_bytes(reply.job_id) == fresh_id
        assert look(store, reply.job_id).payload_body == other
        assert claim(store).payload == other
        fresh_id = rig.clock.new_id()


# Copying.


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (None, NEW_ONLY),
        (NEW_ONLY, None),
        (OLD_ONLY, NEW_ONLY),
        (NEW_ONLY, NEW_ONLY),
        (OLD_ONLY, BOTH),
    ],
)
def test_jobs_move_between_stores_with_keys_on_either_side(
    rig: Rig, here: KeyRing | None, there: KeyRing | None
) -> None:
    source = rig.open(here)
    live_through_everything(source)
    other = Rig(rig.path.with_name("other.db"))
    target = other.open(there)
    dump = source.run(source.transfer.dump(0, 99))
    target.run(target.transfer.load(dump.records))
    jobs = source.run(source.reader.find(JobFilter(), PageRequest(99))).jobs
    found = target.run(target.reader.get([job.id for job in jobs]))
    assert found == jobs
    for job in jobs:
        assert target.run(target.reader.attempts(job.id)) == source.run(
            source.reader.attempts(job.id)
        )
    assert (CANARY.encode() in other.bytes()) is (there is None)
    other.close()


def test_a_store_that_is_copied_without_its_keys_is_copied_whole(rig: Rig) -> None:
    """By somebody with no keys, or with others: whoever has the key can read the copy."""
    rich = rig.open(NEW_ONLY)
    live_through_everything(rich)
    for number, keys in enumerate((None, OLD_ONLY)):
        other = Rig(rig.path.with_name(f"other{number}.db"))
        source, target = rig.open(keys), other.open(keys)
        target.run(target.transfer.load(source.run(source.transfer.dump(0, 99)).records))
        jobs = rich.run(rich.reader.find(JobFilter(), PageRequest(99))).jobs
        copy = other.open(NEW_ONLY)
        assert copy.run(copy.reader.get([job.id for job in jobs])) == jobs
        other.close()


# All else.


bodies = st.builds(Body, st.binary(max_size=99), st.sampled_from([Encoding.JSON, Encoding.BINARY]))


@given(bodies, bodies, bodies, st.text(max_size=40), st.text(max_size=40), st.text(max_size=20))
def test_whatever_goes_in_comes_out(
    payload: Body, checkpoint: Body, result: Body, message: str, trace: str, type_: str
) -> None:
    store = encrypted(MemoryStore(clock=FakeClock()), BOTH)
    failure = Failure(Category.TEMPORARY, message, traceback=trace)
    submit(store, type=type_, payload=payload)
    job = claim(store)
    assert job.payload == payload
    progress = Progress(fraction=0.5, message=message)
    store.run(store.queue.save([Save(job.id, job.lease.token, checkpoint, progress)]))
    settle(store, job, Failed(failure))
    seen = look(store, job.id)
    progress["at"] = store.clock.now()
    assert (seen.failure, seen.progress, seen.checkpoint_body) == (failure, progress, checkpoint)
    (attempt,) = store.run(store.reader.attempts(job.id)) or []
    assert attempt.failure == failure
    store.clock.sleep(3600)
    again = claim(store)
    assert (again.payload, again.checkpoint) == (payload, checkpoint)
    settle(store, again, Succeeded(result))
    assert look(store, job.id).result_body == result


def test_an_operation_looks_to_observers_as_it_would_without(rig: Rig) -> None:
    plain, store = rig.open(None), rig.open(NEW_ONLY)
    jobs = [NewJob(type="mail")]
    asks: list[Callable[[Store], Operation[Any]]] = [
        lambda s: s.queue.enqueue(jobs),
        lambda s: s.queue.claim(ClaimRequest(worker="w", limit=1)),
        lambda s: s.queue.settle([]),
        lambda s: s.queue.save([]),
        lambda s: s.control.edit([]),
        lambda s: s.control.replay([]),
        lambda s: s.reader.get([]),
        lambda s: s.reader.find(JobFilter(), PageRequest(1)),
        lambda s: s.reader.attempts("x"),
        lambda s: s.reader.situation("x"),
        lambda s: s.reader.dead_letters(None, PageRequest(1)),
        lambda s: s.transfer.dump(0, 1),
        lambda s: s.transfer.load([]),
    ]
    for ask in asks:
        ours, theirs = ask(store), ask(plain)
        assert (ours.name, ours.effect, ours.given) == (theirs.name, theirs.effect, theirs.given)


def test_an_operation_can_be_run_again_from_the_start(rig: Rig) -> None:
    """As a store does when a shared commit fails; each time it is another job, with its own id."""
    store = rig.open(NEW_ONLY)
    operation = store.queue.enqueue([NewJob(type="mail", payload=SECRET)])
    first, second = store.run(operation)[0], store.run(operation)[0]
    assert first.job_id != second.job_id
    assert look(store, second.job_id).payload_body == SECRET


def test_without_the_library_the_message_says_what_to_install(rig: Rig) -> None:
    missing = {"cryptography.hazmat.primitives.ciphers.aead": None}
    with (
        patch.dict(sys.modules, missing),
        pytest.raises(ConfigurationError, match=r"pip install 'fencepost\[encryption\]'"),
    ):
        rig.open(NEW_ONLY)


def test_a_store_says_with_which_keys_it_encrypts(rig: Rig) -> None:
    assert rig.open(None).keys is None
    assert rig.open(BOTH).keys == BOTH


def test_an_engine_takes_an_id_that_was_chosen_before(rig: Rig) -> None:
    for store in (rig.open(None), MemoryStore(clock=rig.clock)):
        id_ = rig.clock.new_id()
        assert id_bytes(submit(store, id=id_)) == id_


def test_an_id_that_is_given_is_kept() -> None:
    """Who names an id before the job is stored, reads it by that id afterwards."""
    store = encrypted(MemoryStore(clock=FakeClock()), OLD_ONLY, REFUSE)
    (given_id,) = store.new_ids([NewJob(type="t")])
    job = NewJob(type="t", payload=SECRET, id=given_id)
    (reply,) = store.run(store.queue.enqueue([job]))
    assert id_bytes(reply.job_id) == given_id
    (read,) = store.run(store.reader.get([reply.job_id]))
    assert read is not None
    assert read.payload_body == SECRET
