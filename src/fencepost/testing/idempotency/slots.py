"""Places that hold a function and can hold another in its stead, for a while."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import CellType
from typing import Any, Protocol

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

_NOTHING = object()


class BindingSlot(Protocol):
    """One such place."""

    def get(self) -> Any: ...

    def put(self, value: Any) -> None: ...

    def put_back(self) -> None: ...


class Attribute:
    """An attribute of a module, a class or an object."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name
        self._own = vars(owner).get(name, _NOTHING) if hasattr(owner, "__dict__") else _NOTHING

    def get(self) -> Any:
        """Return what a lookup finds; of a class, as it was written there."""
        if inspect.isclass(self._owner):
            return inspect.getattr_static(self._owner, self._name)
        return getattr(self._owner, self._name)

    def put(self, value: Any) -> None:
        try:
            setattr(self._owner, self._name, value)
        except (AttributeError, TypeError):
            raise ConfigurationError(
                f"{shown(self._owner)} does not let its {self._name!r} be watched; watch its "
                f"class, or give the record that it keeps: effects=[the_list]"
            ) from None

    def put_back(self) -> None:
        if self._own is not _NOTHING:
            setattr(self._owner, self._name, self._own)
        elif inspect.isclass(self._owner):
            delattr(self._owner, self._name)
        else:
            vars(self._owner).pop(self._name, None)  # a Mock would never have it again after del


class Cell:
    """A variable of an enclosing function, as its inner function holds it."""

    def __init__(self, cell: CellType) -> None:
        self._cell = cell
        self._own = cell.cell_contents

    def get(self) -> Any:
        return self._own

    def put(self, value: Any) -> None:
        self._cell.cell_contents = value

    def put_back(self) -> None:
        self._cell.cell_contents = self._own


class GlobalEntry:
    """A name in the globals of a function whose module cannot be found by name."""

    def __init__(self, names: dict[str, Any], name: str) -> None:
        self._names = names
        self._name = name
        self._own = names[name]

    def get(self) -> Any:
        return self._own

    def put(self, value: Any) -> None:
        self._names[self._name] = value

    def put_back(self) -> None:
        self._names[self._name] = self._own


def holders_of(function: Any, handler: Callable[..., Any]) -> list[BindingSlot]:
    """Return every place where *handler*, or a module, or its own class, holds *function*."""
    slots: list[BindingSlot] = [*_globals_with(function, handler), *_cells_with(function, handler)]
    owner = _class_of(function)
    if owner is not None:
        slots.append(Attribute(owner, function.__name__))
    if not slots:
        raise ConfigurationError(
            f"cannot find where {shown(function)} is called from; say so: "
            f'effect(owner, "{getattr(function, "__name__", "name")}")'
        )
    return slots


def _globals_with(function: Any, handler: Callable[..., Any]) -> Iterator[GlobalEntry]:
    own = getattr(inspect.unwrap(handler), "__globals__", {})
    spaces = {id(space): space for space in [own, *_module_spaces()]}
    for space in spaces.values():
        for name in [name for name, value in list(space.items()) if value is function]:
            yield GlobalEntry(space, name)


def _module_spaces() -> Iterator[dict[str, Any]]:
    for module in list(sys.modules.values()):
        space = getattr(module, "__dict__", None)
        if isinstance(space, dict):
            yield space


def _cells_with(function: Any, handler: Callable[..., Any]) -> Iterator[Cell]:
    for cell in getattr(inspect.unwrap(handler), "__closure__", None) or ():
        try:
            holds = cell.cell_contents is function
        except ValueError:  # not assigned yet
            continue
        if holds:
            yield Cell(cell)


def _class_of(function: Any) -> type | None:
    """Return the class in whose body a function was written, if it can be found by name."""
    names = getattr(function, "__qualname__", "").split(".")[:-1]
    owner: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in names:
        owner = getattr(owner, name, None)
    return owner if names and inspect.isclass(owner) else None
