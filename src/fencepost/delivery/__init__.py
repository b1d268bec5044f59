"""The task that delivers webhooks: its job is stored in the transaction that ends the reported job.

If a process dies before the receiver answers, or after that and before the delivery is settled, its
lease expires and the same webhook is sent again, under the same ``webhook-id``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from fencepost.core.encryption import from_text, unreadable
from fencepost.core.job.job import Body, Encoding
from fencepost.core.job.lifecycle import State
from fencepost.core.job.task import Isolation, Task
from fencepost.core.values.signature import Signature
from fencepost.core.webhooks.callback import Webhooks
from fencepost.core.webhooks.delivery import (
    DELIVERY_POLICY,
    DELIVERY_QUEUE,
    DELIVERY_TYPE,
    Delivery,
    webhook_body,
)
from fencepost.core.webhooks.signature import signed_headers
from fencepost.errors import InvalidCallbackError, PermanentError
from fencepost.store.interface.store import Store
from fencepost.worker import Context

if TYPE_CHECKING:
    from fencepost.delivery.sender import Sender

CONTENT = {"content-type": "application/json", "user-agent": "Fencepost-Webhooks/1"}


class Deliverer:
    """Delivers the webhooks of one app."""

    def __init__(self, webhooks: Webhooks, store: Callable[[], Store]) -> None:
        self._webhooks = webhooks
        self._store = store
        self._sender: Sender | None = None

    def deliver(
        self,
        ctx: Context,
        job_id: str,
        url: str,
        state: State,
        completed_at: Annotated[datetime, Meta(tz=True)],
        attempt: int,
    ) -> int:
        """Send one webhook; return the receiver's status."""
        delivery = Delivery(
            job_id=job_id, url=url, state=state, completed_at=completed_at, attempt=attempt
        )
        sealed = from_text(url)
        if sealed is not None:  # this worker has no keys at all
            raise unreadable(Body(sealed, Encoding.ENCRYPTED))
        try:
            # Checked again: the settings may have changed since the submission.
            callback = self._webhooks.check(url)
        except InvalidCallbackError as error:
            raise PermanentError(str(error), code="callback_refused") from None
        store = self._store()
        (job,) = store.run(store.reader.get([job_id]))
        body = webhook_body(delivery, job)
        headers = signed_headers(
            self._webhooks.keys,
            id=ctx.job_id,
            timestamp=int(store.clock.now().timestamp()),
            body=body,
        )
        return self._sending(store).send(callback, {**CONTENT, **headers}, body)

    def _sending(self, store: Store) -> Sender:
        """Return the sender, made on first use: few processes deliver."""
        if self._sender is None:
            self._sender = load_sender()(self._webhooks, store.clock)
        return self._sender


def load_sender() -> type[Sender]:
    """Import what sends webhooks: it takes a while, and callers never need it."""
    from fencepost.delivery.sender import Sender

    return Sender


def delivery_task(webhooks: Webhooks, store: Callable[[], Store]) -> Task:
    """Return the task that delivers the webhooks of an app whose store *store* returns."""
    deliver = Deliverer(webhooks, store).deliver
    return Task(
        type=DELIVERY_TYPE,
        function=deliver,
        signature=Signature(deliver, Context),
        isolation=Isolation.THREAD,
        queue=DELIVERY_QUEUE,
        policy=DELIVERY_POLICY,
    )
