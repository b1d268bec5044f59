"""A job on PostgreSQL, in a database of which the schema is made by the command."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg

from fencepost import App

url = os.environ["PROBE_URL"]
app = App(url)


@app.task
def add(a: int, b: int) -> int:
    return a + b


command = Path(sys.executable).parent / "fencepost"
subprocess.run([command, "--url", url, "migrate"], check=True, stdout=subprocess.DEVNULL)
job = add.submit(1, b=2)
app.worker().run(until_idle=True)
assert job.result() == 3
with psycopg.connect(url) as connection:
    print(f"a job was run on PostgreSQL {connection.info.server_version // 10_000}")
