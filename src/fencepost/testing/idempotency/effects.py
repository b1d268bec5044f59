"""Calls that have an effect on the world: which they are, and how often they happened."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError
from fencepost.testing.idempotency.slots import Attribute, BindingSlot, holders_of
from fencepost.testing.idempotency.trail import Trail

SUBMIT = "submit"
"""The effect of submitting a job, which is always watched."""

Counts = dict[str, Counter[str]]
"""By effect: how often it happened, with what."""

KeyOf = str | Callable[..., Any] | None


class EffectFunction(msgspec.Struct, frozen=True):
    """A function whose every call is an effect on the world."""

    name: str
    target: Any
    attribute: str | None = None
    """The name by which *target* has it; None if *target* is the function itself."""
    key: KeyOf = None


def effect(target: Any, attribute: str | None = None, *, key: KeyOf = None) -> EffectFunction:
    """Have calls watched: of a function, of ``"package.module.name"``, or of ``(owner, "name")``.

    With *key*, calls of equal keys count as one, as they do for a provider that takes an
    idempotency key: name the parameter that carries it, or give a function of the arguments.
    """
    if attribute is not None:
        return EffectFunction(attribute, target, attribute, key)
    if isinstance(target, str):
        owner, name = _resolve(target)
        return EffectFunction(name, owner, name, key)
    if not callable(target):
        raise ConfigurationError(f"cannot watch {shown(target)}: it is not a function")
    name = getattr(target, "__name__", None) or type(target).__name__
    owner = getattr(target, "__self__", None)
    if owner is None or inspect.ismodule(owner):
        return EffectFunction(name, target, None, key)
    return EffectFunction(name, owner, name, key)


def _resolve(path: str) -> tuple[Any, str]:
    """Return the owner of what ``package.module.Class.name`` names, and its last name."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:length])
        try:
            owner: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            continue
        for part in parts[length:-1]:
            owner = getattr(owner, part, None)
        if hasattr(owner, parts[-1]):
            return owner, parts[-1]
    raise ConfigurationError(f'no function is called {path!r}; write "package.module.name"')


class Watch:
    """Counts the watched calls of one life of a job."""

    def __init__(self, trail: Trail) -> None:
        self.counts: Counts = {}
        self._trail = trail
        self._seen: set[tuple[str, str]] = set()

    def note(self, name: str, text: str, key: str | None = None) -> Callable[[], None]:
        """Count an effect, unless its key was counted; return how to take that back."""
        if key is not None and (name, key) in self._seen:
            return lambda: None
        counts = self.counts.setdefault(name, Counter())
        counts[text] += 1
        if key is not None:
            self._seen.add((name, key))

        def undo() -> None:
            counts[text] -= 1
            if key is not None:
                self._seen.discard((name, key))

        return undo

    @contextmanager
    def watching(self, places: Sequence[Place]) -> Iterator[None]:
        """Put a watch on every effect, and take it off after."""
        with ExitStack() as stack:
            for each, slot in places:
                slot.put(_watched(slot.get(), each, self, self._trail))
                stack.callback(slot.put_back)
            yield


Place = tuple[EffectFunction, BindingSlot]
"""An effect, and one of the places where its function is found."""


def places_of(effects: Sequence[EffectFunction], handler: Callable[..., Any]) -> list[Place]:
    """Return every place where *handler* finds a watched function."""
    return [(each, slot) for each in effects for slot in _slots_of(each, handler)]


def _slots_of(watched: EffectFunction, handler: Callable[..., Any]) -> Sequence[BindingSlot]:
    """Return where the handler finds what is watched."""
    owner, name = watched.target, watched.attribute
    if name is None:
        return holders_of(owner, handler)
    if not hasattr(owner, name):
        raise ConfigurationError(f"{shown(owner)} has no {name!r} to watch")
    if inspect.ismodule(owner):  # others may have imported it from there
        return holders_of(getattr(owner, name), handler)
    return [Attribute(owner, name)]


def _watched(original: Any, watched: EffectFunction, watch: Watch, trail: Trail) -> Any:
    """Return what stands in for *original*: it passes two points, and counts in between."""
    if isinstance(original, (staticmethod, classmethod)):
        inner = _watched(original.__func__, watched, watch, trail)
        return type(original)(inner)
    name = watched.name

    def begin(args: Any, kwargs: Any) -> Callable[[], None]:
        if trail.is_idle:  # the test's own call
            return lambda: None
        trail.reach(f"before {name}")
        # Counted when it begins: whether a call that was cut short took effect, nobody knows.
        text = _call_text(original, name, args, kwargs)
        return watch.note(name, text, _key(original, watched.key, args, kwargs))

    async def finish(value: Any, undo: Callable[[], None]) -> Any:
        try:
            value = await value
        except Exception:
            undo()  # it was refused
            raise
        trail.reach(f"after {name}")
        return value

    @functools.wraps(original)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        undo = begin(args, kwargs)
        return await finish(original(*args, **kwargs), undo)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        undo = begin(args, kwargs)
        try:
            value = original(*args, **kwargs)
        except Exception:
            undo()
            raise
        if inspect.isawaitable(value):
            return finish(value, undo)
        trail.reach(f"after {name}")
        return value

    return call_async if inspect.iscoroutinefunction(original) else call


def _key(original: Any, key: KeyOf, args: Any, kwargs: Any) -> str | None:
    """Return what makes two calls one, as text that can be compared."""
    if key is None:
        return None
    if callable(key):
        return repr(key(*args, **kwargs))
    given = {**inspect.signature(original).bind_partial(*args).arguments, **kwargs}
    if key not in given:
        raise ConfigurationError(f"no argument called {key!r} was given: it cannot be the key")
    return repr(given[key])


def _call_text(original: Any, name: str, args: Any, kwargs: Any) -> str:
    if args and _is_unbound(original):
        args = args[1:]
    words = [*map(shown, args), *(f"{key}={shown(value)}" for key, value in kwargs.items())]
    return f"{name}({', '.join(words)})"


def _is_unbound(function: Any) -> bool:
    """Tell whether a function's first argument is the object whose method it is."""
    if not inspect.isfunction(function):
        return False
    return function.__code__.co_varnames[:1] in (("self",), ("cls",))
