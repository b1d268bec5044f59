"""Handlers that complete their job in a transaction of their own; children import them from here.

Each notes its run in the table ``ledger``, in the same transaction.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import asyncpg
import psycopg

from fencepost import Context

NOTE = "insert into ledger(job, attempt) values (%s, %s)"


def note(conn: psycopg.Connection[Any], ctx: Context) -> None:
    conn.execute(NOTE, (ctx.job_id, ctx.attempt))


def complete(ctx: Context, url: str) -> str:
    with psycopg.connect(url) as conn:
        note(conn, ctx)
        ctx.complete_in(conn, "from within")
    return "not this"


async def complete_async(ctx: Context, url: str) -> str:
    async with await psycopg.AsyncConnection.connect(url) as conn:
        await conn.execute(NOTE, (ctx.job_id, ctx.attempt))
        await ctx.aio.complete_in(conn, "from within")
    return "not this"


async def complete_over_asyncpg(ctx: Context, url: str) -> str:
    conn = await asyncpg.connect(url)
    async with conn.transaction():
        await conn.execute("insert into ledger values ($1, $2)", ctx.job_id, ctx.attempt)
        await ctx.aio.complete_in(conn, "from within")
    await conn.close()
    return "not this"


def roll_back_first(ctx: Context, url: str) -> None:
    """Take it back in the first attempt, and return as if nothing were wrong."""
    with psycopg.connect(url) as conn:
        note(conn, ctx)
        ctx.complete_in(conn, "from within")
        if ctx.attempt == 1:
            conn.rollback()


def die_before_commit_first(ctx: Context, url: str) -> None:
    with psycopg.connect(url) as conn:
        note(conn, ctx)
        ctx.complete_in(conn, "from within")
        if ctx.attempt == 1:
            os._exit(1)


def die_after_commit(ctx: Context, url: str) -> None:
    complete(ctx, url)
    os._exit(1)


def complete_and_stay(ctx: Context, url: str, folder: str) -> None:
    """Complete the job, and go on until told to stop; then say what was heard of it."""
    complete(ctx, url)
    while not (Path(folder) / "go on").exists():
        time.sleep(0.01)
    (Path(folder) / "gone on").write_text(str(ctx.cancel_reason))
