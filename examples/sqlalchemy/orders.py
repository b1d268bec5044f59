"""Orders and their jobs in one transaction: when they are placed, and when they are shipped."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from fencepost import App, Context

URL = os.environ["DATABASE_URL"]  # postgresql://… as Fencepost and SQLAlchemy both know it
PLACE = URL.partition("://")[2]

app = App(URL)


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    thing: Mapped[str]
    is_shipped: Mapped[bool] = mapped_column(default=False)


@app.lifespan
async def sessions(_: App) -> AsyncIterator[async_sessionmaker[AsyncSession]]:
    """Open an engine in each worker; handlers find it as ``ctx.state``."""
    engine = create_async_engine(f"postgresql+asyncpg://{PLACE}")
    yield async_sessionmaker(engine)
    await engine.dispose()


@app.task
async def ship(ctx: Context, number: int) -> None:
    async with ctx.state() as session, session.begin():
        order = await session.get_one(Order, number)
        order.is_shipped = True
        await session.flush()
        # The order is marked and the job is completed, or neither: no order is shipped twice.
        await ctx.aio.complete_in(session, f"{order.thing} is on its way")


def place(thing: str) -> str:
    """Store an order and its job together; return the id of the job."""
    engine = create_engine(f"postgresql+psycopg://{PLACE}")
    with Session(engine) as session, session.begin():
        order = Order(thing=thing)
        session.add(order)
        session.flush()  # gives the order its number
        job = ship.using(conn=session).submit(order.id)
    engine.dispose()
    return job.id


async def place_all(things: list[str]) -> list[str]:
    """Do the same for many orders, awaited and over asyncpg: all are stored or none."""
    engine = create_async_engine(f"postgresql+asyncpg://{PLACE}")
    async with AsyncSession(engine) as session, session.begin():
        orders = [Order(thing=thing) for thing in things]
        session.add_all(orders)
        await session.flush()
        jobs = await ship.aio.using(conn=session).submit_many([order.id for order in orders])
    await engine.dispose()
    return [job.id for job in jobs]


def prepare() -> None:
    """Make the tables of the shop, and those of Fencepost."""
    engine = create_engine(f"postgresql+psycopg://{PLACE}")
    Base.metadata.create_all(engine)
    engine.dispose()
    app.migrate()


if __name__ == "__main__":
    prepare()
    first, *others = sys.argv[1:]
    for job_id in [place(first), *asyncio.run(place_all(others))]:
        print(job_id)
