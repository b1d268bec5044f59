"""A shop: an order and the job that ships it are stored together, or neither is."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from fencepost import App, JobNotFoundError
from fencepost.fastapi import JobModel, Joining, SubmittedJob, joining, lifespan, mount

URL = os.environ["DATABASE_URL"]  # postgresql+asyncpg://…: for SQLAlchemy and for Fencepost

queue = App(URL)
engine = create_async_engine(URL)
sessions = async_sessionmaker(engine)


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    thing: Mapped[str] = mapped_column(unique=True)


@queue.task
async def ship(order: int, thing: str) -> str:
    return f"{thing} is on its way, by order {order}"


async def session() -> AsyncIterator[AsyncSession]:
    """Commit when the endpoint has returned, and before its answer is sent."""
    async with sessions() as opened, opened.begin():
        yield opened


# With the scope of the function: otherwise FastAPI commits when the answer has been sent.
in_transaction = Depends(session, scope="function")
Session = Annotated[AsyncSession, in_transaction]
Jobs = Annotated[Joining, Depends(joining(in_transaction))]


@asynccontextmanager
async def running(site: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with lifespan(queue, migrate=True, worker=True, concurrency=4)(site):
        yield
    await engine.dispose()


site = FastAPI(lifespan=running)
mount(site, queue, "/queue")


@site.post("/orders", status_code=202)
async def place(thing: str, session: Session, jobs: Jobs) -> SubmittedJob:
    order = Order(thing=thing)
    session.add(order)
    try:
        await session.flush()  # gives the order its number
    except IntegrityError as error:
        raise HTTPException(409, "this thing was ordered before") from error
    return SubmittedJob.of(await jobs(ship).aio.submit(order.id, thing))


@site.get("/jobs/{id}")
async def job(id: str) -> JobModel[str]:
    try:
        return JobModel[str].of(await queue.aio.jobs.get(id))
    except JobNotFoundError as error:
        raise HTTPException(404, "there is no such job") from error
