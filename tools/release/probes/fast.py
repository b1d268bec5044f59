"""A handler runs on uvloop, and the HTTP server parses with httptools."""

import asyncio

from fencepost import App
from fencepost.clock import SystemClock
from fencepost.http.server.connection import ConnectionLimits
from fencepost.http.server.server import loop_factory
from fencepost.http.server.uvicorn_protocols import HttptoolsConnection, connection_class

app = App("memory://")


@app.task
async def loop() -> str:
    return type(asyncio.get_running_loop()).__module__


job = loop.submit()
app.worker().run(until_idle=True)
assert job.result() == "uvloop", job.result()
assert loop_factory() is not None
made = connection_class(SystemClock(), ConnectionLimits(), set())
assert issubclass(made, HttptoolsConnection)
print("a handler ran on uvloop, and a server would parse with httptools")
