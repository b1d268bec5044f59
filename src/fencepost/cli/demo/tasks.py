"""The tasks of ``fencepost demo``: they pretend to work, and fail in the ways of real work."""

from __future__ import annotations

from fencepost import App, Context, PermanentError, Retry, TemporaryError
from fencepost.clock import SystemClock

app = App(name="fencepost-demo")
clock = SystemClock()

STEP = 0.15
"""Seconds for one page of a report, one batch of orders."""


@app.task(queue="mail")
def send_mail(to: str) -> str:
    """Everyday work, as a ``def`` in a thread."""
    clock.sleep(0.15)
    return f"sent to {to}"


@app.task(queue="media")
async def resize_image(name: str, width: int) -> str:
    """Everyday work, as an ``async def`` on the worker's loop."""
    await clock.sleep_async(0.1)
    return f"{name} is now {width} pixels wide"


@app.task(retry=Retry(max_attempts=3, initial_delay="1s"))
def fetch_rates(ctx: Context, currency: str) -> str:
    """Fails once, and succeeds when it is retried."""
    clock.sleep(0.1)
    if ctx.attempt == 1:
        raise TemporaryError("the rates service answered 503")
    return f"1 {currency} is 1.08 USD"


@app.task
def charge_card(card: str) -> None:
    """Fails permanently: a retry cannot help."""
    clock.sleep(0.1)
    raise PermanentError(f"card {card} has expired", code="card_expired")


@app.task(retry=Retry(max_attempts=2, initial_delay="500ms"))
def sync_stock(warehouse: str) -> None:
    """Fails every time, until its attempts are used up."""
    clock.sleep(0.1)
    raise TemporaryError(f"warehouse {warehouse} refuses connections")


@app.task
def send_newsletter(issue: int) -> str:
    """Never runs: it is delayed, and cancelled before it is due."""
    return f"sent issue {issue}"


@app.task(retry=Retry(max_attempts=3, initial_delay="100ms"))
def build_report(ctx: Context, pages: int) -> dict[str, int]:
    """Long work that saves a checkpoint per page, and continues from the last one."""
    first = ctx.last_checkpoint or 0
    for page in range(first, pages):
        clock.sleep(STEP)
        ctx.checkpoint(page + 1)
        ctx.progress((page + 1) / pages, f"page {page + 1} of {pages}")
    return {"pages": pages, "first_page_of_this_attempt": first + 1, "attempt": ctx.attempt}


@app.task(retry=Retry(max_attempts=3, initial_delay="100ms"))
def import_orders(ctx: Context, batches: int) -> dict[str, int]:
    """Long work that ignores ``ctx.cancelled``: only the store can stop its writes."""
    for batch in range(batches):
        clock.sleep(STEP)
        ctx.progress((batch + 1) / batches, f"batch {batch + 1} of {batches}")
    return {"batches": batches, "attempt": ctx.attempt}
