"""A shop whose jobs do all that a dashboard has to show: run, fail, wait, retry and end.

with open_shop(folder) as shop:
    shop.fill()
    shop.start_worker()
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from fencepost import App, Context, PermanentError, Retry, TemporaryError
from fencepost.worker import Worker

RUNNING_MAX = 1_200.0
"""Seconds for which a job runs that a test sees running: longer than any file of tests takes."""


class GatewayTimeout(TemporaryError):
    """The acquirer did not answer."""


def tasks_of(app: App) -> dict[str, Any]:
    """Declare the tasks of the shop on *app*; return them by name."""
    gate = threading.Event()

    @app.task(queue="payments", priority="high", retry=Retry(max_attempts=5, initial_delay=60))
    def capture_payment(order: int, acquirer: str, amount: str) -> str:
        if acquirer == "nordbank":
            raise GatewayTimeout(f"{acquirer} did not answer within 2.0 s")
        return f"receipt-{order}"

    @app.task(queue="payments", lease_ttl=30)
    def settle_batch(ctx: Context, day: str) -> int:
        ctx.progress(0.6, "waiting for the acquirer")
        gate.wait(RUNNING_MAX)
        return 4200

    @app.task(queue="mail", retry=Retry(max_attempts=1))
    def send_receipt(order: int, template: str = "default") -> None:
        if template != "default":
            raise KeyError(f"unknown template {template}")

    @app.task(queue="media")
    def transcode_video(path: str) -> None: ...

    @app.task
    def render_invoice(order: int) -> dict[str, Any]:
        if order % 7 == 0:
            raise PermanentError("the font is not installed")
        return {"order": order, "ledger_entry": 9007199254740993, "pages": [1, 2, 3]}

    @app.cron("0 8 * * 1-5", tz="Europe/Berlin", arguments={"order": 1})
    @app.task(queue="reports")
    def report(order: int) -> None: ...

    @app.event("order.paid").on
    def thank(order: int) -> None: ...

    found = locals()
    names = (
        *("capture_payment", "settle_batch", "send_receipt", "transcode_video"),
        *("render_invoice", "report"),
    )
    return {"gate": gate, **{name: found[name] for name in names}}


class Shop:
    """An app with its tasks, and workers in threads of this process."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.tasks = tasks_of(app)
        self._workers: list[tuple[Worker, threading.Thread]] = []

    def fill(self) -> dict[str, str]:
        """Submit jobs of every kind; return the ids of some by name."""
        tasks = self.tasks
        ids: dict[str, str] = {}
        for order in range(88001, 88013):
            job = tasks["render_invoice"].using(tags={"tenant": str(order % 3)}).submit(order)
            ids["invoice"] = job.id
        for order in range(88100, 88106):
            acquirer = "nordbank" if order % 2 else "sudbank"
            job = (
                tasks["capture_payment"]
                .using(tags={"tenant": "7", "region": "eu"}, correlation_id=f"order-{order}")
                .submit(order, acquirer, "129.00")
            )
            ids["retrying" if order % 2 else "captured"] = job.id
        for order in (1, 2, 3):
            ids["dead"] = tasks["send_receipt"].submit(order, "missing").id
        tasks["send_receipt"].submit(9)
        ids["unserved"] = tasks["transcode_video"].submit("cover.mp4").id
        ids["delayed"] = tasks["render_invoice"].using(delay=3600).submit(5).id
        ids["running"] = tasks["settle_batch"].using(concurrency_key="day").submit("2026-11-18").id
        nodes = {
            "reserve": tasks["render_invoice"].prepare(10),
            "fraud": tasks["render_invoice"].prepare(11),
            "payment": tasks["settle_batch"]
            .using(after=["reserve", "fraud"])
            .prepare("2026-11-17"),
            "receipt": tasks["send_receipt"].using(after=["payment"]).prepare(3),
            "ship": tasks["render_invoice"].using(after=["payment"]).prepare(12),
        }
        ids["flow"] = self.app.flow(nodes).submit().id
        self.app.event("order.paid").send(order=88101)
        self.app.jobs.cancel(tasks["render_invoice"].using(delay=60).submit(6).id)
        return ids

    def refuse(self, url: str) -> str:
        """Let a worker over HTTP sleep through its lease and then write; return its job's id.

        What it writes is refused. Call it before other workers start: they take the job over.
        """
        again = Retry(max_attempts=5, initial_delay=1)
        task = self.tasks["capture_payment"].using(priority="critical", retry=again)
        job = task.submit(88213, "sudbank", "129.00")
        claim = {"worker": "app-1:3977", "types": ["capture_payment"], "lease_ttl": "1s"}
        (claimed,) = httpx.post(f"{url}/v1/claims", json=claim).json()["jobs"]
        assert claimed["id"] == job.id
        self.start_worker()
        while not self.app.jobs.get(job.id).state.is_terminal:
            self.app.session.clock.sleep(0.1)
        late = {"id": job.id, "token": claimed["lease"]["token"], "result": None}
        assert httpx.post(f"{url}/v1/leases/ack", json=late).status_code == 409
        return str(job.id)

    def rush(self, count: int) -> None:
        """Let a worker complete *count* jobs, so that rates and times have something to go by."""
        jobs = [{"order": n, "acquirer": "sudbank", "amount": "9.00"} for n in range(count)]
        self.tasks["capture_payment"].submit_many(jobs)
        self.start_worker()
        while self.app.jobs.count(type="capture_payment", state="completed") < count:
            self.app.session.clock.sleep(0.1)

    def start_worker(self, **options: Any) -> Worker:
        """Run a worker that serves all queues but ``media``."""
        queues = options.pop("queues", ["payments", "mail", "default", "reports"])
        worker = self.app.worker(queues, **{"concurrency": 8, "grace": 1.0, **options})
        thread = threading.Thread(target=worker.run, name="shop-worker", daemon=True)
        thread.start()
        self._workers.append((worker, thread))
        return worker

    def wait_for(self, states: Iterable[str], patience: float = 30.0) -> None:
        """Return when there are jobs in each of *states*."""
        clock = self.app.session.clock
        deadline = clock.monotonic() + patience
        while not all(self.app.jobs.count(state=state) for state in states):
            assert clock.monotonic() < deadline, f"no job came to one of {states}"
            clock.sleep(0.05)

    def close(self) -> None:
        """Let everything end, and wait for it."""
        self.tasks["gate"].set()
        for worker, _ in self._workers:
            worker.stop()
        for _, thread in self._workers:
            thread.join(20)


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """Open a shop on a store in *folder*."""
    with App(f"sqlite:///{folder}/shop.db") as app:
        shop = Shop(app)
        try:
            yield shop
        finally:
            shop.close()
