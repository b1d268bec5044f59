"""Outlive the tests by a moment: end the server they left behind, and remove its folder.

Run as a program with the server's folder and its pid file. Its standard input is a pipe that only
the process of the tests holds open, so the end of input means that they are gone, however they
went. It imports little, and nothing of ours, to be there at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

PATIENCE_SECONDS = 10.0


def main(folder: str, pid_file: str) -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    while os.read(0, 1024):
        pass
    deadline = time.monotonic() + PATIENCE_SECONDS
    # Immediate shutdown: nothing in the folder is needed, but shared memory is to be given back.
    how = signal.SIGQUIT
    while os.path.exists(folder) and time.monotonic() < deadline + PATIENCE_SECONDS:
        pid = server(folder, pid_file)
        if pid is None:
            # Once more in a moment: what the server's children still wrote is removed then.
            shutil.rmtree(folder, ignore_errors=True)
        else:
            os.kill(pid, how if time.monotonic() < deadline else signal.SIGKILL)
        time.sleep(0.05)


def server(folder: str, pid_file: str) -> int | None:
    """Return the server's pid while it runs; a pid that is somebody else's now does not count."""
    try:
        with open(pid_file, encoding="utf-8") as file:
            pid = int(file.readline())
    except (OSError, ValueError):
        return None
    return pid if folder in command_line(pid) else None


def command_line(pid: int) -> str:
    if os.path.isdir("/proc/self"):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
