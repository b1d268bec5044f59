"""How long, and for how much, a server bears with a connection."""

from __future__ import annotations

import msgspec

from fencepost.core.bounds import (
    HTTP_BODIES_MAX,
    HTTP_CONNECTIONS_MAX,
    HTTP_FAREWELL,
    HTTP_HEAD_MAX,
    HTTP_HEAD_TIMEOUT,
    HTTP_IDLE_TIMEOUT,
    HTTP_LINGER,
    HTTP_SWEEP_INTERVAL,
    HTTP_WRITE_STEP,
    HTTP_WRITE_TIMEOUT,
)


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one connection, of how many there are, and of what they send together.

    See core/bounds.py.
    """

    head_max: int = HTTP_HEAD_MAX
    head_timeout: float = HTTP_HEAD_TIMEOUT
    idle_timeout: int = HTTP_IDLE_TIMEOUT
    linger: float = HTTP_LINGER
    write_timeout: float = HTTP_WRITE_TIMEOUT
    write_step: int = HTTP_WRITE_STEP
    farewell: float = HTTP_FAREWELL
    connections_max: int = HTTP_CONNECTIONS_MAX
    bodies_max: int = HTTP_BODIES_MAX
    sweep_interval: float = HTTP_SWEEP_INTERVAL
