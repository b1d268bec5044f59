"""``fencepost webhooks``: a secret to sign them with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import json_option

if TYPE_CHECKING:
    from fencepost.store.interface.cluster import WorkerInfo
    from fencepost.store.interface.overview import Finding, QueueView


@click.group()
def webhooks() -> None:
    """Webhooks: make a secret to sign them."""


@webhooks.command("secret")
@json_option
def secret(as_json: bool) -> None:
    """Print a fresh secret, for the app and for receivers.

    Put it into FENCEPOST_WEBHOOK_SECRETS, or give it to Webhooks(secrets=[…]). To replace an old
    one, put the fresh one beside it, have receivers take it over, and then remove the old one.
    """
    from fencepost.webhooks import new_secret

    made = new_secret()
    if as_json:
        from fencepost.cli.output import echo_json

        echo_json({"secret": made})
        return
    echo(made)


def undelivered(queues: list[QueueView], workers: list[WorkerInfo]) -> list[Finding]:
    """Warn of webhooks that wait for a worker: one of named queues serves theirs only if told."""
    from fencepost.core.job.lifecycle import LIVE
    from fencepost.core.webhooks.delivery import DELIVERY_QUEUE, DELIVERY_TYPE
    from fencepost.store.interface.overview import Finding

    counts = next((queue.counts for queue in queues if queue.name == DELIVERY_QUEUE), {})
    waiting = sum(count for state, count in counts.items() if state in LIVE)
    is_served = any(
        DELIVERY_TYPE in worker.types and (worker.queues is None or DELIVERY_QUEUE in worker.queues)
        for worker in workers
    )
    if is_served or not waiting:
        return []
    text = (
        f"{waiting} webhooks wait and nobody delivers them; start `fencepost server APP`, or "
        f"`fencepost worker APP` without --queue or with --queue {DELIVERY_QUEUE}, for an app that "
        f"has webhook secrets"
    )
    return [Finding("warn", "webhooks", text)]
