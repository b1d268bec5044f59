"""Collections that a test's fakes write to: put back before every run, and read after it."""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet
from typing import Any

from fencepost.core.display import shown

KINDS = (MutableSequence, MutableMapping, MutableSet)


class EffectRecord:
    """A collection that effects are written to, put back before every run."""

    def __init__(self, collection: Any, name: str) -> None:
        self.name = name
        self._collection = collection
        self._before = copy.copy(collection)

    def put_back(self) -> None:
        """Restore what it held before the check began."""
        self._collection.clear()
        if isinstance(self._collection, MutableSequence):
            self._collection.extend(self._before)
        elif isinstance(self._collection, MutableMapping):
            self._collection.update(self._before)
        else:
            self._collection |= self._before

    @property
    def is_list(self) -> bool:
        """True if its items are effects one by one; of others, only the whole is compared."""
        return isinstance(self._collection, MutableSequence)

    def counts(self) -> Counter[str]:
        """Return what came to it, as text, and how often."""
        now, before = (Counter(map(shown, items)) for items in (self._collection, self._before))
        return Counter({f"{text} in {self.name}": n for text, n in (now - before).items()})

    def contents(self) -> Any:
        """Return all that it holds, as it is now."""
        return copy.deepcopy(self._collection)


def record(collection: Any, number: int, handler: Callable[..., Any]) -> EffectRecord:
    """Return a record of *collection*, under the name by which the handler knows it, if it does."""
    return EffectRecord(collection, _name_of(collection, handler) or f"effects[{number}]")


def _name_of(value: Any, handler: Callable[..., Any]) -> str | None:
    function = inspect.unwrap(handler)
    known = dict(getattr(function, "__globals__", {}))
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is not None and cells is not None:
        for name, cell in zip(code.co_freevars, cells, strict=True):
            try:
                known[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
    return next((name for name, each in known.items() if each is value), None)
