"""The lifespan of a server: it opens the store, may run a worker, and closes both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from fencepost.errors import ConfigurationError
from fencepost.starlette.worker import EmbeddedOptions, EmbeddedWorker

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.store.interface.store import Store

SiteLifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[None]]


def lifespan(
    app: App,
    *,
    worker: bool = False,
    migrate: bool = False,
    **options: Unpack[EmbeddedOptions],
) -> SiteLifespan:
    """Return a lifespan for a Starlette or FastAPI application: ``FastAPI(lifespan=…)``.

    It opens the store before the first request, and closes it after the last. With *migrate*, it
    brings the schema up to date first. With *worker*, a worker runs in a thread of each server
    process, with *options* as of ``app.worker``: queues, concurrency, lease_ttl, grace. At the end
    its jobs finish within grace. The app can be used again afterwards, which tests do.
    """
    if options and not worker:
        raise ConfigurationError(
            f"{', '.join(options)}: these are options of the worker, and none is to run; "
            f"add worker=True"
        )

    @asynccontextmanager
    async def running(_: Any) -> AsyncIterator[None]:
        embedded = EmbeddedWorker(app, **options) if worker else None
        await asyncio.to_thread(_open, app, migrate=migrate)
        try:
            if embedded is not None:
                await asyncio.to_thread(embedded.start)
            try:
                yield
            finally:
                if embedded is not None:
                    await embedded.stop()
        finally:
            await asyncio.to_thread(app.session.disconnect)

    return running


def _open(app: App, *, migrate: bool) -> Store:
    if migrate:
        app.migrate()
    return app.store  # which is opened when it is asked for
