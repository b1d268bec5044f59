"""What the parts of an app or a client (``jobs``, ``queues``, …) hold, in both faces."""

from __future__ import annotations

from fencepost.actions.backend import Backend, CallerActions


class BackendPart:
    """A set of actions on one subject; how they are run, the face decides."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def _actions(self) -> CallerActions:
        return self._backend.actions
