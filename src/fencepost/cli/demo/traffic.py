"""What a demo submits while it keeps running: something of everything that a dashboard shows."""

from __future__ import annotations

from fencepost.cli.demo.tasks import (
    app,
    build_report,
    fetch_rates,
    import_orders,
    resize_image,
    send_mail,
    sync_stock,
)

FLOW_EVERY = 20
RETRY_EVERY = 15
DEAD_EVERY = 40
IMAGES = 4


def submit_some(count: int) -> None:
    """Submit the jobs of round *count*, from 1: everyday work, and now and then more."""
    send_mail.submit(f"reader{count}@example.org")
    resize_image.submit(f"cover-{count}.jpg", 320)
    if count % FLOW_EVERY == 1:
        _submit_flow(count // FLOW_EVERY + 1)
    if count % RETRY_EVERY == 2:
        fetch_rates.submit("EUR")
    if count % DEAD_EVERY == 3:
        sync_stock.submit("north")


def _submit_flow(issue: int) -> None:
    """Submit an issue of a magazine: orders, then images and a report side by side, then a mail."""
    name = f"issue-{issue}"
    images = {
        f"image-{number}": resize_image.using(after=["orders"], correlation_id=name).prepare(
            f"issue-{issue}-{number}.jpg", 640
        )
        for number in range(1, IMAGES + 1)
    }
    nodes = {
        "orders": import_orders.using(correlation_id=name).prepare(10),
        **images,
        "report": build_report.using(after=["orders"], correlation_id=name).prepare(12),
        "mail": send_mail.using(after=["report", *images], correlation_id=name).prepare(
            "all@example.org"
        ),
    }
    app.flow(nodes).submit()
