"""A shop: orders are accepted at once, and shipped by jobs in the context of the site."""

from __future__ import annotations

from typing import Any

from flask import Flask, current_app, request

from fencepost import JobNotFoundError
from fencepost.flask import Fencepost

queue = Fencepost()


@queue.task
def ship(thing: str) -> str:
    current_app.logger.info("shipping %s", thing)
    return f"{thing} is on its way to {current_app.config['TOWN']}"


def create_app() -> Flask:
    site = Flask(__name__)
    site.config["TOWN"] = "Porto"
    site.config["FENCEPOST_URL"] = "sqlite:///shop-jobs.db"
    site.config.from_prefixed_env()  # FLASK_FENCEPOST_URL, FLASK_TOWN
    queue.init_app(site)

    @site.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    @site.post("/orders")
    def place() -> tuple[dict[str, Any], int]:
        # The number of the order is its key: to send it twice ships it once.
        task = ship.using(key=request.form["number"])
        job = task.submit(request.form["thing"])
        return {"job": job.id, "duplicate": job.duplicate}, 202

    @site.get("/jobs/<id>")
    def job(id: str) -> tuple[dict[str, Any], int]:
        try:
            return queue.jobs.get(id).to_dict(), 200
        except JobNotFoundError:
            return {"error": "there is no such job"}, 404

    return site
