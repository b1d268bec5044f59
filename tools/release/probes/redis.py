"""A job on Redis."""

import os

from redis import Redis

from fencepost import App

url = os.environ["PROBE_URL"]
app = App(url)


@app.task
def add(a: int, b: int) -> int:
    return a + b


job = add.submit(1, b=2)
app.worker().run(until_idle=True)
assert job.result() == 3
with Redis.from_url(url.partition("?")[0]) as connection:
    print(f"a job was run on Redis {connection.info('server')['redis_version']}")
