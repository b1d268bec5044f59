"""Tasks of both kinds, as a project's `tasks.py` has them."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from fencepost import Context, PermanentError, Retry, TemporaryError
from fencepost.django import app
from fencepost.django.framework import FRAMEWORK

if FRAMEWORK == "django.tasks":
    from django.tasks import task as task
else:
    from django_tasks import task as task

SEEN: list[Any] = []
"""What handlers note; a test empties it."""


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task(queue_name="mail", priority=10)
def send(to: str) -> str:
    SEEN.append(to)
    return f"sent to {to}"


@task
async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@task
def fail(code: str) -> None:
    raise PermanentError(f"refused {code}", code=code)


@task(takes_context=True)
def flaky(context: Any, fails: int) -> list[Any]:
    SEEN.append(context.attempt)
    if context.attempt <= fails:
        raise TemporaryError("not yet", retry_after=0)
    result = context.task_result
    return [result.id, str(result.status), len(result.errors), result.worker_ids != []]


@task
def unserialisable() -> object:
    return object()


@task
def query(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


@task
async def query_async(alias: str) -> int:
    return int(await sync_to_async(query.func)(alias))


@app.task(retry=Retry(max_attempts=2, initial_delay=0))
def ship(ctx: Context, order: int) -> int:
    SEEN.append(order)
    return ctx.attempt


@app.event("order.paid").on
def on_paid(order: int) -> int:
    return order
