"""Tools for tests of code that uses Fencepost.

- ``memory_store(app)`` puts an app on a store in memory with a clock that stands still, for the
  length of a test; ``drain(app)`` runs the jobs that are due, in the caller's thread;
  ``submitted(task)`` returns the arguments of every submitted job.
- ``check_idempotent(task, …)`` crashes a handler wherever it can crash, runs it again, and reports
  effects that happened twice, or not at all.
- ``FakeClock`` and ``FakeContext`` are for tests of single functions.

pytest finds the fixtures of ``fencepost.testing.plugin`` by itself; nothing else here needs it.
"""

from typing import TYPE_CHECKING

from fencepost import _lazily

if TYPE_CHECKING:
    from fencepost.testing.clock import FakeClock as FakeClock
    from fencepost.testing.context import FakeContext as FakeContext
    from fencepost.testing.idempotency import NotIdempotentError as NotIdempotentError
    from fencepost.testing.idempotency import Report as Report
    from fencepost.testing.idempotency import check_idempotent as check_idempotent
    from fencepost.testing.idempotency import effect as effect
    from fencepost.testing.runner import Ran as Ran
    from fencepost.testing.runner import drain as drain
    from fencepost.testing.store import memory_store as memory_store
    from fencepost.testing.store import submitted as submitted

# Loaded on first use: the plugin is imported in every run of pytest on the machine.
_HOMES = {
    "fencepost.testing.clock": "FakeClock",
    "fencepost.testing.context": "FakeContext",
    "fencepost.testing.idempotency": "NotIdempotentError Report check_idempotent effect",
    "fencepost.testing.runner": "Ran drain",
    "fencepost.testing.store": "memory_store submitted",
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = _lazily(__name__, _HOMES)
