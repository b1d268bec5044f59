"""One parser under fuzz, and the examination of it by one input."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from fencepost.core.bounds import SHOWN_LENGTH_MAX

SECONDS_MAX = 1.0
"""Of this thread's own time, so that a busy machine is no finding."""
MESSAGE_MAX = 2 * SHOWN_LENGTH_MAX + 800
"""A refusal explains itself, and may show two values, shortened, and where they were."""

Refusals = tuple[type[BaseException], ...]
Check = Callable[[Any, Any], object]


def nothing_more(given: Any, parsed: Any) -> None:
    """Ask nothing of what was accepted."""


def nothing_hidden(_: Any) -> None:
    """Find no password in an input."""


@dataclass(frozen=True)
class Target:
    """A parser: never anything but a value, or the error that its documentation names."""

    name: str
    parse: Callable[[Any], Any]
    inputs: SearchStrategy[Any]
    refusals: Refusals = ()
    """What it may raise; nothing, for one that answers whatever it is given."""
    check: Check = nothing_more
    """Raises AssertionError if what was accepted is not what was given."""
    hides: Callable[[Any], str | None] = nothing_hidden
    """Returns what of an input is a password, which no refusal may repeat."""

    def examine(self, given: Any) -> bool:
        """Feed it one input; tell whether it was accepted. Raise what is wrong with the answer."""
        start = time.thread_time()
        try:
            parsed = self.parse(given)
        except self.refusals as refusal:
            self._examine_refusal(given, str(refusal))
            return False
        finally:
            seconds = time.thread_time() - start
            if seconds > SECONDS_MAX:
                raise AssertionError(f"took {seconds:.1f} s")
        self.check(given, parsed)
        return True

    def _examine_refusal(self, given: Any, message: str) -> None:
        assert message, "a refusal says nothing"
        assert len(message) <= MESSAGE_MAX, f"a refusal of {len(message):,} characters"
        secret = self.hides(given)
        assert secret is None or secret not in message, "a refusal shows a password"
