"""A job over HTTP: submitted and awaited by a client, run by the worker of a server's app."""

import subprocess
import sys
import time
from pathlib import Path
from socket import create_server
from threading import Thread
from urllib.error import URLError
from urllib.request import urlopen

from fencepost import App, Client

app = App("sqlite:///jobs.db")


@app.task
def add(a: int, b: int) -> int:
    return a + b


def main() -> None:
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = Path(sys.executable).parent / "fencepost"
    server = subprocess.Popen([command, "server", "app:app", "--port", str(port)])
    worker = app.worker()
    thread = Thread(target=worker.run)
    thread.start()
    try:
        wait_for(port, server)
        with Client(f"http://127.0.0.1:{port}") as client:
            job = client.task("add").submit(a=1, b=2)
            assert job.result(timeout=30) == 3
    finally:
        worker.stop()
        thread.join(30)
        server.terminate()
        server.wait(30)
    print("a job was submitted and awaited over HTTP")


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        assert server.poll() is None
        try:
            urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5).close()
            return
        except URLError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


if __name__ == "__main__":
    main()
