"""The fixtures are found by pytest, without a line of configuration."""

import subprocess
import sys
from pathlib import Path

TEST = """
def test_a_job_runs(fencepost_app, fencepost_drain):
    @fencepost_app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = add.submit(1, b=2)
    [ran] = fencepost_drain()
    assert job.result() == 3
"""

Path("test_it.py").write_text(TEST)
subprocess.run([sys.executable, "-m", "pytest", "-q", "test_it.py"], check=True)
print("pytest found the fixtures, and a test passed")
