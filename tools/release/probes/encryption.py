"""A job whose payload and result cannot be read in the file."""

import subprocess
import sys
from pathlib import Path

from fencepost import App

command = Path(sys.executable).parent / "fencepost"
key = subprocess.run([command, "keys", "new"], check=True, stdout=subprocess.PIPE, text=True)
app = App("sqlite:///jobs.db", keys=[key.stdout.strip()])


@app.task
def greet(name: str) -> str:
    return f"hello {name}"


job = greet.submit("Rumpelstiltskin")
app.worker().run(until_idle=True)
assert job.result() == "hello Rumpelstiltskin"
files = [path for path in Path().glob("jobs.db*") if path.is_file()]
assert files
assert not [path for path in files if b"Rumpelstiltskin" in path.read_bytes()]
print("a job was run, and its file does not show the payload")
