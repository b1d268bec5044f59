"""Calls that have an effect on the world: where they are found, and how often they happened."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import CellType
from typing import Any

import msgspec

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError
from fencepost.testing.idempotency.trail import Trail

_NOTHING = object()

SUBMIT = "submit"
"""The effect of submitting a job, which is always watched."""

Counts = dict[str, Counter[str]]
"""By effect: how often it happened, with what."""

KeyOf = str | Callable[..., Any] | None


class EffectFunction(msgspec.Struct, frozen=True):
    """A function whose calls are effects on the world."""

    name: str
    target: Any
    attribute: str | None = None
    """Its name on *target*; None if *target* is the function itself."""
    key: KeyOf = None


def effect(target: Any, attribute: str | None = None, *, key: KeyOf = None) -> EffectFunction:
    """Watch the calls of a function, of ``"package.module.name"``, or of ``(owner, "name")``.

    With *key*, calls with equal keys count as one, as they do for a provider that takes an
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
    """Counts the watched calls of one run of the job."""

    def __init__(self, trail: Trail) -> None:
        self.counts: Counts = {}
        self._trail = trail
        self._seen: set[tuple[str, str]] = set()

    def note(self, name: str, text: str, key: str | None = None) -> Callable[[], None]:
        """Count an effect, unless its key was counted; return a function that undoes this."""
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
        """Replace every watched function, and put it back after."""
        with ExitStack() as stack:
            for each, slot in places:
                slot.put(_watched(slot.get(), each, self, self._trail))
                stack.callback(slot.put_back)
            yield


class Slot:
    """A place that holds a function: a global name, or a variable of an enclosing function."""

    def __init__(self, own: Any, put: Callable[[Any], object]) -> None:
        self._own = own
        self._put = put

    def get(self) -> Any:
        return self._own

    def put(self, value: Any) -> None:
        self._put(value)

    def put_back(self) -> None:
        self._put(self._own)


class AttributeSlot(Slot):
    """An attribute of a module, a class or an object, which may be inherited."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name
        own = vars(owner).get(name, _NOTHING) if hasattr(owner, "__dict__") else _NOTHING
        super().__init__(own, functools.partial(setattr, owner, name))

    def get(self) -> Any:
        """Return what a lookup finds; of a class, as it was written there."""
        if inspect.isclass(self._owner):
            return inspect.getattr_static(self._owner, self._name)
        return getattr(self._owner, self._name)

    def put(self, value: Any) -> None:
        try:
            super().put(value)
        except (AttributeError, TypeError):
            raise ConfigurationError(
                f"{shown(self._owner)} does not let its {self._name!r} be watched; watch its "
                f"class, or give the record that it keeps: effects=[the_list]"
            ) from None

    def put_back(self) -> None:
        if self._own is not _NOTHING:
            super().put_back()
        elif inspect.isclass(self._owner):
            delattr(self._owner, self._name)
        else:
            vars(self._owner).pop(self._name, None)  # a Mock would never have it again after del


Place = tuple[EffectFunction, "Slot"]
"""An effect, and one of the places where its function is found."""


def places_of(effects: Sequence[EffectFunction], handler: Callable[..., Any]) -> list[Place]:
    """Return every place where *handler* finds a watched function."""
    return [(each, slot) for each in effects for slot in _slots_of(each, handler)]


def _slots_of(watched: EffectFunction, handler: Callable[..., Any]) -> Sequence[Slot]:
    owner, name = watched.target, watched.attribute
    if name is None:
        return holders_of(owner, handler)
    if not hasattr(owner, name):
        raise ConfigurationError(f"{shown(owner)} has no {name!r} to watch")
    if inspect.ismodule(owner):  # others may have imported it from there
        return holders_of(getattr(owner, name), handler)
    return [AttributeSlot(owner, name)]


def holders_of(function: Any, handler: Callable[..., Any]) -> list[Slot]:
    """Return every place where *handler*, a module, or the function's class holds *function*."""
    slots = [*_globals_with(function, handler), *_cells_with(function, handler)]
    owner = _class_of(function)
    if owner is not None:
        slots.append(AttributeSlot(owner, function.__name__))
    if not slots:
        raise ConfigurationError(
            f"cannot find where {shown(function)} is called from; name its owner: "
            f'effect(owner, "{getattr(function, "__name__", "name")}")'
        )
    return slots


def _globals_with(function: Any, handler: Callable[..., Any]) -> Iterator[Slot]:
    modules = [getattr(module, "__dict__", None) for module in list(sys.modules.values())]
    # A handler's own module may not be in sys.modules.
    found = [getattr(inspect.unwrap(handler), "__globals__", {}), *modules]
    spaces = {id(space): space for space in found if isinstance(space, dict)}
    for space in spaces.values():
        for name in [name for name, value in list(space.items()) if value is function]:
            yield Slot(function, functools.partial(space.__setitem__, name))


def _cells_with(function: Any, handler: Callable[..., Any]) -> Iterator[Slot]:
    for _, cell, value in variables_of(handler):
        if value is function:
            yield Slot(function, functools.partial(setattr, cell, "cell_contents"))


def variables_of(handler: Callable[..., Any]) -> Iterator[tuple[str, CellType, Any]]:
    """Yield name, cell and value of each variable that *handler* has from enclosing functions."""
    function = inspect.unwrap(handler)
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or cells is None:
        return
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        yield name, cell, value


def _class_of(function: Any) -> type | None:
    """Return the class in whose body a function was written, if it can be found by name."""
    names = getattr(function, "__qualname__", "").split(".")[:-1]
    owner: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in names:
        owner = getattr(owner, name, None)
    return owner if names and inspect.isclass(owner) else None


def _watched(original: Any, watched: EffectFunction, watch: Watch, trail: Trail) -> Any:
    """Return a replacement of *original*: it passes two points, and counts in between."""
    if isinstance(original, (staticmethod, classmethod)):
        inner = _watched(original.__func__, watched, watch, trail)
        return type(original)(inner)
    name = watched.name

    def begin(args: Any, kwargs: Any) -> Callable[[], None]:
        if trail.is_idle:  # the test's own call
            return lambda: None
        trail.reach(f"before {name}")
        # Counted at its start: whether a call that is cut short took effect is unknown.
        text = call_text(name, args[1:] if _is_unbound(original) else args, kwargs)
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
    """Return the text by which two calls count as one."""
    if key is None:
        return None
    if callable(key):
        return repr(key(*args, **kwargs))
    given = {**inspect.signature(original).bind_partial(*args).arguments, **kwargs}
    if key not in given:
        raise ConfigurationError(f"no argument called {key!r} was given: it cannot be the key")
    return repr(given[key])


def call_text(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a call as it would be written."""
    words = [*map(shown, args), *(f"{key}={shown(value)}" for key, value in kwargs.items())]
    return f"{name}({', '.join(words)})"


def _is_unbound(function: Any) -> bool:
    """Return whether a function is a method whose object is its first argument."""
    if not inspect.isfunction(function):
        return False
    return function.__code__.co_varnames[:1] in (("self",), ("cls",))
