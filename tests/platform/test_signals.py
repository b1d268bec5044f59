"""Signals that stop a process, on a loop that cannot hear them."""

from __future__ import annotations

import asyncio
from typing import cast

from fencepost.platform import signals


class DeafLoop:
    """As the loops of some libraries are: whatever is asked of them about signals, they refuse."""

    def add_signal_handler(self, *_: object) -> None:
        raise NotImplementedError

    def remove_signal_handler(self, *_: object) -> None:
        raise NotImplementedError


def test_a_loop_that_hears_no_signals_is_left_in_peace() -> None:
    loop = cast(asyncio.AbstractEventLoop, DeafLoop())
    signals.watch(loop, lambda: None)
    signals.leave(loop)
