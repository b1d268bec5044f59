"""What the pictures show beside the shop: a flow that is half done, a queue at its limit, and a
store in which people have done something."""

from __future__ import annotations

import threading
from typing import Any

import httpx

from fencepost import App, PermanentError, Retry

ONCE = Retry(max_attempts=1)
PATIENCE = 600
IMAGES, SHOWN = 64, 46
BACKLOG = 1_204
VERSIONS = ("a41f9e2", "a41f9e2", "c07d113")


def declare(app: App) -> dict[str, Any]:
    """Declare more tasks on *app*; return them by name, and the gate that holds some of them."""
    gate = threading.Event()

    @app.task(queue="images", retry=ONCE)
    def resize_image(number: int) -> None:
        if number >= SHOWN:
            gate.wait(PATIENCE)

    @app.task(queue="payments", lease_ttl=30)
    def charge_card(order: int) -> None:
        gate.wait(PATIENCE)

    @app.task(retry=ONCE)
    def print_invoice(order: int) -> None:
        raise PermanentError("font not found: Inter-Bold")

    @app.task(queue="reports", retry=ONCE)
    def sync_crm(account: str, page: int) -> None:
        if page > 3:
            raise TimeoutError(f"{account} did not answer within 10 s")

    @app.task
    def step(order: int) -> None:
        app.session.clock.sleep(0.3 * (order % 4))

    for name, when in (
        ("nightly_rollup", "30 2 * * *"),
        ("charge_subscriptions", "0 6 1 * *"),
        ("refresh_rates", "*/15 7-19 * * 1-5"),
        ("rebuild_search", "0 4 * * 0"),
    ):
        _declare_cron(app, name, when)
    return locals()


def _declare_cron(app: App, name: str, when: str) -> None:
    @app.cron(when, tz="Europe/Berlin")
    @app.task(name=name, queue="reports", retry=ONCE)
    def run() -> None:
        if name == "refresh_rates" and app.session.clock.now().microsecond % 3 == 0:
            raise ConnectionError("the exchange closed the connection")


class FrontPage:
    """A shop with all of it."""

    def __init__(self, shop: Any) -> None:
        self.shop = shop
        self.tasks = declare(shop.app)

    def fill(self) -> dict[str, str]:
        """Submit it all and start workers; return the id of the flow."""
        app, tasks = self.shop.app, self.tasks
        tokens = app.tokens
        self._deploy = tokens.create("deploy", roles=["submit", "operate"], queues=["mail"]).text
        tokens.create("grafana", roles=["read"])
        roles = ["read", "submit", "operate", "admin"]
        self._ada = tokens.create("oncall-ada", roles=roles).text
        for version in VERSIONS:
            self.shop.start_worker(version=version)
        self.shop.start_worker(
            queues={"images": 3, "reports": 1}, concurrency=24, version="a41f9e2"
        )
        for page in range(12):
            tasks["sync_crm"].using(tags={"tenant": "acme"}).submit("acme", page)
        paths = [{"path": f"cover-{number}.mp4"} for number in range(BACKLOG)]
        self.shop.tasks["transcode_video"].submit_many(paths)
        for number in (1, 2, 3):
            app.event("order.paid").send(order=88101 + number)
        return {"flow": app.flow(self._order()).submit().id}

    def _order(self) -> dict[str, Any]:
        """Return the nodes of one order."""
        step, correlated = self.tasks["step"], {"correlation_id": "order-88213"}
        images = {
            f"resize-{number}": self.tasks["resize_image"]
            .using(after=["validate"], **correlated)
            .prepare(number)
            for number in range(IMAGES)
        }

        def node(task: Any, *after: str) -> Any:
            return task.using(**({"after": list(after)} if after else {}), **correlated)

        return {
            "validate": node(step).prepare(1),
            "reserve": node(step, "validate").prepare(2),
            "fraud": node(step, "validate").prepare(3),
            **images,
            "payment": node(self.tasks["charge_card"], "reserve", "fraud").prepare(88213),
            "invoice": node(self.tasks["print_invoice"], "fraud").prepare(88213),
            "archive": node(step, "invoice").prepare(0),
            "receipt": node(step, "payment").prepare(1),
            "ship": node(step, "payment").prepare(2),
            "sync_crm": node(step, "receipt", "ship").prepare(1),
            "publish_gallery": node(step, *images).prepare(1),
        }

    def act(self, url: str) -> str:
        """Do what operators do, each with a token; return the token of one who may do all."""
        self._await_tokens(url)
        for token, method, path, body in (
            (self._deploy, "POST", "queues/mail/pause", None),
            (self._ada, "PUT", "queues/images/limit", {"max_running": 18}),
            (self._ada, "PUT", "queues/payments/limit", {"max_running": 24}),
            (self._deploy, "POST", "crons/refresh_rates/run", None),
            (self._ada, "POST", "crons/rebuild_search/pause", None),
            *[
                (self._ada, "POST", f"crons/{name}/run", None)
                for name in ("nightly_rollup", "report")
            ],
            *[(self._ada, "POST", "crons/refresh_rates/run", None)] * 8,
        ):
            headers = {"authorization": f"Bearer {token}"}
            httpx.request(method, f"{url}/v1/{path}", json=body, headers=headers)
        return str(self._ada)

    def _await_tokens(self, url: str) -> None:
        """Return when the server has seen that there are tokens: for seconds it keeps that not."""
        headers = {"authorization": f"Bearer {self._ada}"}
        for _ in range(PATIENCE):
            if httpx.get(f"{url}/v1/me", headers=headers).json()["by"] == "token":
                return
            self.shop.app.session.clock.sleep(0.1)
        raise AssertionError("the server takes no token")

    def close(self) -> None:
        self.tasks["gate"].set()
