"""Puts a fresh process in the place of one that has retired.

A supervisor does that when a process ends with a certain code. Without one, the process starts its
program again in its place, under the same process id.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from fencepost.clock import Clock
from fencepost.core.bounds import RETIRED_PATIENCE

REPLACE_CODE = 75
"""Exit code of a process that is to be replaced: see ``Worker.is_retiring``."""


class Replacement:
    """How this process is replaced, if it comes to that."""

    def __init__(self, clock: Clock, *, is_supervised: bool) -> None:
        self._clock = clock
        self._is_supervised = is_supervised
        self._folder = os.getcwd()
        """The folder where the program was started: a handler may have changed to another."""

    def watch(self) -> None:
        """Replace this process after a while, even if something keeps it from ending.

        Its run is over. But a lifespan may hang as it is left, and Python waits for every thread
        of ``asyncio.to_thread``: such a process would claim nothing, and never end.
        """
        threading.Thread(target=self._wait, name="fencepost-replacement", daemon=True).start()

    def make(self) -> NoReturn:
        """Replace this process now."""
        if self._is_supervised:
            sys.exit(REPLACE_CODE)
        self._start_again()

    def _wait(self) -> None:
        self._clock.sleep(RETIRED_PATIENCE)
        if self._is_supervised:
            os._exit(REPLACE_CODE)
        self._start_again()

    def _start_again(self) -> NoReturn:
        # execv keeps the process id, for whatever monitors it, and ends every thread.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        with suppress(OSError):
            os.chdir(self._folder)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
