"""What a test of Fencepost, or of anything built on it, needs.

- ``memory_store(app)`` puts an app on a store in memory with a clock that stands still, for the
  length of a test; ``drain(app)`` runs what is due, in the caller's thread; ``submitted(task)``
  tells what was submitted.
- ``check_idempotent(task, …)`` crashes a handler wherever it can crash, runs it again, and tells
  which effects happened twice, or not at all.
- ``FakeClock`` and ``FakeContext`` are for tests of single functions.
- ``conformance`` is the exam of a store.

pytest finds the fixtures of ``fencepost.testing.plugin`` by itself; nothing else here needs it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.testing.attempting import Ran
    from fencepost.testing.clock import FakeClock
    from fencepost.testing.context import FakeContext
    from fencepost.testing.draining import drain
    from fencepost.testing.idempotency import NotIdempotentError, Report, check_idempotent, effect
    from fencepost.testing.lending import memory_store
    from fencepost.testing.submissions import submitted

__all__ = [
    "FakeClock",
    "FakeContext",
    "NotIdempotentError",
    "Ran",
    "Report",
    "check_idempotent",
    "drain",
    "effect",
    "memory_store",
    "submitted",
]

# Loaded when first asked for: the plugin is imported in every run of pytest on the machine.
_HOMES = {
    "fencepost.testing.attempting": "Ran",
    "fencepost.testing.clock": "FakeClock",
    "fencepost.testing.context": "FakeContext",
    "fencepost.testing.draining": "drain",
    "fencepost.testing.idempotency": "NotIdempotentError Report check_idempotent effect",
    "fencepost.testing.lending": "memory_store",
    "fencepost.testing.submissions": "submitted",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
