"""The task that delivers webhooks, run by real workers on real stores.

The stores make these jobs themselves; here they are made by hand, as the stores make them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.delivery.receiver import OK, Receiver, answering, receiving, status

from fencepost import App, EncryptionKey, PermanentError, Retry, Webhooks
from fencepost.app import JobHandle
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.webhooks.delivery import DELIVERY_QUEUE, DELIVERY_TYPE, Delivery, delivery_job
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.memory.store import MemoryStore
from fencepost.testing import FakeClock, drain
from fencepost.webhooks import new_secret, verify
from fencepost.worker import Context
from fencepost.worker.run.context import AttemptState, ContextActions

SECRET = new_secret()
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def settings(*secrets: str, **options: Any) -> Webhooks:
    given = {"allow_http": True, "allow_networks": ["127.0.0.0/8"], **options}
    return Webhooks(secrets or [SECRET], **given)


@pytest.fixture(params=["sqlite", "memory"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with App(url, webhooks=settings()) as app:
        yield app


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def ended(app: App, receiver: Receiver) -> tuple[JobHandle[Any], NewJob]:
    """Run a job to its end; return it with the delivery that tells of it."""

    @app.task(name="work")
    def work(how: str) -> dict[str, str]:
        if how == "badly":
            raise PermanentError("no such user", code="E1")
        return {"how": how}

    how = "badly" if receiver.requests else "well"
    job = work.using(correlation_id="order-9", tags={"tenant": "7"}).submit(how)
    app.worker().run(until_idle=True)
    return job, delivery_of(job, receiver.url)


def delivery_of(job: JobHandle[Any], url: str) -> NewJob:
    stored = job.refresh()
    assert stored.completed_at is not None
    delivery = Delivery(
        job_id=job.id,
        url=url,
        state=stored.state,
        completed_at=stored.completed_at,
        attempt=stored.attempt,
    )
    return delivery_job(delivery, stored.correlation_id)


def made_up(url: str, **fields: Any) -> NewJob:
    """Return a delivery that tells of a job which is gone."""
    given = {
        "job_id": "0b5e7a52-2f3a-4c49-9f0e-5a6c1b7d8e90",
        "state": State.FAILED,
        "completed_at": NOON,
        "attempt": 3,
    }
    return delivery_job(Delivery(url=url, **{**given, **fields}))


def test_a_worker_delivers_what_the_receiver_can_verify(app: App, receiver: Receiver) -> None:
    """S1-108, S1-109."""
    job, delivery = ended(app, receiver)
    (sent,) = app.submit_many([delivery])
    app.worker().run(until_idle=True)
    assert sent.result(0) == 200
    (request,) = receiver.requests
    event = verify(SECRET, request.headers, request.body)
    assert event["type"] == "job.completed"
    assert event["data"] == {
        "id": job.id,
        "type": "work",
        "queue": "default",
        "state": "completed",
        "attempt": 1,
        "correlation_id": "order-9",
        "tags": {"tenant": "7"},
        "result": {"how": "well"},
    }
    assert request.headers["webhook-id"] == sent.id
    assert request.headers["content-type"] == "application/json"
    assert app.jobs.find(correlation_id="order-9", type=DELIVERY_TYPE).jobs


def test_a_failure_is_told_of_with_its_reason(app: App, receiver: Receiver) -> None:
    """S1-109."""
    app.submit_many([ended(app, receiver)[1]])
    app.worker().run(until_idle=True)
    app.submit_many([ended(app, receiver)[1]])
    app.worker().run(until_idle=True)
    event = verify(SECRET, receiver.requests[1].headers, receiver.requests[1].body)
    assert event["type"] == "job.failed"
    assert event["data"]["error"] == {
        "category": "permanent",
        "message": "no such user",
        "code": "E1",
    }


def test_a_job_that_is_gone_is_told_of_by_what_is_known(app: App, receiver: Receiver) -> None:
    """S1-109: pruned before the receiver could be reached."""
    app.submit_many([made_up(receiver.url)])
    app.worker().run(until_idle=True)
    event = verify(SECRET, receiver.requests[0].headers, receiver.requests[0].body)
    assert event["type"] == "job.failed"
    assert event["data"].keys() == {"id", "state", "attempt"}


def test_an_id_that_is_none_is_told_of_like_a_job_that_is_gone(
    app: App, receiver: Receiver
) -> None:
    """Whoever stored it, it does not loop."""
    (sent,) = app.submit_many([made_up(receiver.url, job_id="no id")])
    app.worker().run(until_idle=True)
    assert sent.result(0) == 200


def test_a_receiver_that_fails_is_tried_again_under_the_same_id() -> None:
    """S1-109: at least once, retried, and known again."""
    clock = FakeClock(datetime.now(UTC))
    app = App(store=MemoryStore(clock=clock), webhooks=settings())
    answers = answering(status(500), status(503, "Retry-After: 4000"), OK)
    with receiving(answers) as receiver:
        (sent,) = app.submit_many([made_up(receiver.url)])
        drain(app)
        assert sent.refresh().state is State.RETRYING
        clock.advance("6s")
        drain(app)
        waiting = sent.refresh()
        assert waiting.run_at - clock.now() == timedelta(seconds=4000), "as it asked"
        clock.advance("4000s")
        drain(app)
        assert sent.refresh().state is State.COMPLETED
    ids = {request.headers["webhook-id"] for request in receiver.requests}
    assert len(receiver.requests) == 3
    assert ids == {sent.id}
    times = [int(request.headers["webhook-timestamp"]) for request in receiver.requests]
    assert times == sorted(set(times)), "each is signed when it is sent"


def test_a_process_that_dies_after_the_answer_sends_again_under_the_same_id(
    receiver: Receiver,
) -> None:
    """S1-109: delivered, but not settled; the receiver can tell."""
    clock = FakeClock(datetime.now(UTC))
    store = MemoryStore(clock=clock)
    app = App(store=store, webhooks=settings())
    (sent,) = app.submit_many([made_up(receiver.url)])
    task = app.session.tasks[DELIVERY_TYPE]
    request = ClaimRequest(
        worker="w", types=frozenset(app.session.tasks), queues=None, limit=1, lease_ttl=30.0
    )
    (claimed,) = store.run(store.queue.claim(request)).jobs
    args, kwargs = task.signature.decode(claimed.payload)
    state = AttemptState(claimed, claimed.lease, clock.monotonic())
    task.function(*args, ctx=Context(ContextActions(state, store)), **kwargs)
    clock.advance("31s")  # it died here: its lease runs out
    drain(app)
    clock.advance("1m")
    drain(app)
    assert sent.refresh().state is State.COMPLETED
    assert [r.headers["webhook-id"] for r in receiver.requests] == [sent.id] * 2


def test_a_receiver_that_refuses_makes_a_dead_letter_that_can_be_replayed(app: App) -> None:
    """S1-109: deliveries have dead letters of their own."""
    with receiving(answering(status(404), OK)) as receiver:
        (sent,) = app.submit_many([made_up(receiver.url)])
        app.worker().run(until_idle=True)
        (letter,) = app.dead_letters.list(type=DELIVERY_TYPE)
        assert letter.job_id == sent.id
        assert letter.failure.code == "callback_rejected"
        app.dead_letters.replay(sent.id)
        app.worker().run(until_idle=True)
    assert len(receiver.requests) == 2


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://127.0.0.1:8080/", {"allow_networks": []}),
        ("http://127.0.0.1:8080/", {"allow_http": False}),
        ("http://localhost:8080/", {"allow_networks": []}),
        ("https://169.254.169.254/latest/meta-data", {}),
        ("gopher://example.com", {}),
    ],
)
def test_a_receiver_that_settings_no_longer_allow_is_refused_for_good(
    url: str, options: dict[str, Any]
) -> None:
    """Also one that reached the store by another way, where nobody checked it."""
    app = App("memory://", webhooks=settings(**options))
    (sent,) = app.submit_many([made_up(url)])
    app.worker().run(until_idle=True)
    stored = sent.refresh()
    assert stored.state is State.FAILED
    assert stored.failure is not None
    assert stored.failure.code == "callback_refused"


def test_both_secrets_sign_while_one_replaces_the_other(receiver: Receiver) -> None:
    old, new = new_secret(), new_secret()
    app = App("memory://", webhooks=settings(new, old))
    app.submit_many([made_up(receiver.url)])
    app.worker().run(until_idle=True)
    (request,) = receiver.requests
    for known in (old, new):
        assert verify(known, request.headers, request.body)


@pytest.mark.parametrize(
    "job",
    [
        NewJob(type=DELIVERY_TYPE, queue=DELIVERY_QUEUE),
        made_up("http://127.0.0.1:1/", completed_at=NOON.replace(tzinfo=None)),
    ],
    ids=["nothing at all", "a time without a zone"],
)
def test_a_payload_that_is_no_delivery_fails_when_no_version_could_read_it(job: NewJob) -> None:
    """C47."""
    app = App(store=MemoryStore(clock=FakeClock()), webhooks=settings())
    (sent,) = app.submit_many([job])
    drain(app, raises=False)
    assert sent.refresh().state is State.RETRYING
    drain(app, advance="all", raises=False)
    failed = sent.refresh()
    assert failed.state is State.FAILED
    assert failed.failure is not None
    assert failed.failure.code == "unreadable_payload"


def test_an_app_without_secrets_leaves_deliveries_to_others_and_says_so() -> None:
    store = MemoryStore(clock=FakeClock())
    without = App(store=store)
    (sent,) = without.submit_many([made_up("https://example.com/")])
    assert DELIVERY_TYPE not in without.session.tasks
    drain(without)
    assert sent.refresh().state is State.SCHEDULED
    (reason,) = sent.why()
    assert reason.code == "no_worker"
    assert "webhook secrets" in reason.text
    assert f"--queue {DELIVERY_QUEUE}" in reason.text


def test_a_worker_of_named_queues_leaves_deliveries_to_others(app: App, receiver: Receiver) -> None:
    (sent,) = app.submit_many([made_up(receiver.url)])
    app.worker(queues=["default"]).run(until_idle=True)
    assert sent.refresh().state is State.SCHEDULED
    app.worker(queues=["default", DELIVERY_QUEUE]).run(until_idle=True)
    assert sent.refresh().state is State.COMPLETED


def test_a_store_that_is_away_delays_a_delivery(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails as temporary, and comes again."""
    clock = FakeClock(datetime.now(UTC))
    store = MemoryStore(clock=clock)
    app = App(store=store, webhooks=settings())
    (sent,) = app.submit_many([made_up(receiver.url)])

    def away(job_ids: Any) -> Any:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patched:
        patched.setattr(store.reader, "get", away)
        drain(app)
    assert sent.refresh().state is State.RETRYING
    clock.advance("1m")
    drain(app)
    assert sent.refresh().state is State.COMPLETED


# Where addresses are encrypted.


def told(path: Path, receiver: Receiver, *keys: Any) -> tuple[JobHandle[Any], JobHandle[Any]]:
    """Run a job whose address is encrypted, deliver with *keys*, and return both."""
    url, key = f"sqlite:///{path}/jobs.db", EncryptionKey("k", b"k" * 32)
    with App(url, webhooks=settings(), keys=[key]) as app:
        work = app.task(name="work")(lambda: "done")
        job = work.using(callback_url=f"{receiver.url}?token=canary-7c1f").submit()
        app.worker(queues=["default"]).run(until_idle=True)
        assert job.result(0) == "done"
    assert b"canary-7c1f" not in (path / "jobs.db").read_bytes()
    app = App(url, webhooks=settings(), keys=list(keys) or None, retry=Retry.none())
    app.worker(queues=[DELIVERY_QUEUE]).run(until_idle=True)
    delivery = next(iter(app.jobs.find(type=DELIVERY_TYPE)))
    return job, app.jobs.get(delivery.id)


def test_an_address_is_decrypted_for_its_delivery_alone(tmp_path: Path, receiver: Receiver) -> None:
    _, delivery = told(tmp_path, receiver, EncryptionKey("k", b"k" * 32))
    assert delivery.result(0) == 200
    (request,) = receiver.requests
    assert "token=canary-7c1f" in request.line
    assert b'"result":"done"' in request.body


@pytest.mark.parametrize("keys", [[], [EncryptionKey("other", b"o" * 32)]])
def test_without_its_key_nothing_is_delivered_and_the_attempt_names_it(
    tmp_path: Path, receiver: Receiver, keys: list[EncryptionKey]
) -> None:
    _, delivery = told(tmp_path, receiver, *keys)
    (attempt,) = delivery.attempts()
    assert attempt.failure is not None
    assert attempt.failure.code == "key_missing"
    assert delivery.refresh().state is State.RETRYING
    assert receiver.requests == []
