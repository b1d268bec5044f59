"""The command's part in webhooks."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import msgspec
from tests.cli.support import Command

from fencepost import App, Webhooks
from fencepost.core.job.lifecycle import State
from fencepost.core.webhooks.delivery import DELIVERY_QUEUE, Delivery, delivery_job
from fencepost.core.webhooks.signature import parse_secrets
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.webhooks import new_secret


def test_a_fresh_secret_is_printed_and_nothing_else(command: Command) -> None:
    first, second = command.ok("webhooks", "secret"), command.ok("webhooks", "secret")
    assert first != second
    assert first.count("\n") == 1
    assert parse_secrets(first)
    assert parse_secrets(json.loads(command.ok("webhooks", "secret", "--json"))["secret"])


def test_making_a_secret_needs_no_store(command: Command) -> None:
    command.ok("webhooks", "secret")
    assert not os.path.exists("jobs.db")


def test_the_doctor_tells_of_webhooks_that_nobody_delivers(command: Command) -> None:
    delivery = Delivery(
        job_id="j",
        url="https://example.com/",
        state=State.COMPLETED,
        completed_at=datetime(2026, 1, 1, tzinfo=UTC),
        attempt=1,
    )
    with App(command.url, webhooks=Webhooks(new_secret())) as app:
        app.submit_many([delivery_job(delivery)])
        worker = WorkerInfo(
            id="w",
            host="h",
            pid=1,
            queues={"default": 1},
            types=tuple(app.session.tasks),
            concurrency=1,
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        app.store.run(app.store.cluster.announce(worker))
        codes = {each["code"]: each for each in command.json("doctor")}
        assert codes["webhooks"]["level"] == "warn"
        assert f"--queue {DELIVERY_QUEUE}" in codes["webhooks"]["text"]
        app.store.run(app.store.cluster.announce(msgspec.structs.replace(worker, queues=None)))
        assert "webhooks" not in {each["code"] for each in command.json("doctor")}
