"""A facet: operations of a store that belong together, declared once and bound by each engine.

An interface declares operations with ``@operation``. A class that implements it binds each of them
to a plan, by ``Binder`` or ``planned``, and need not repeat what was declared. A class that leaves
one out is refused when it is made, and so is one that binds what no interface declares: what is
added to a facet later cannot be forgotten by an engine, nor pass through a wrapper unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from inspect import getattr_static
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, cast

from fencepost.store.plan import Declaration, Effect, Operation, Plan, Wakes, declaration_of

T = TypeVar("T")
E = TypeVar("E")
S = TypeVar("S")
P = ParamSpec("P")
Method = Callable[..., Operation[Any]]
M = TypeVar("M", bound=Method)


def operation(
    effect: Effect,
    *,
    has_content: bool,
    wakes: Wakes = Wakes.BY_MOVES,
    jobs_at: int | None = None,
    name: str | None = None,
    is_long: bool = False,
) -> Callable[[M], M]:
    """Declare a method of an interface to be an operation; *name* is the method's own if None."""

    def declare(method: M) -> M:
        vars(method)["declaration"] = Declaration(
            name or method.__name__, effect, wakes, has_content, jobs_at, is_long
        )
        return method

    return declare


class Facet:
    """Some operations of a store. A subclass is complete, or else says that it is *abstract*."""

    operations: ClassVar[Mapping[str, Method]] = {}
    """The methods of the interface, as they were declared, by their names."""

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.operations = {
            name: member
            for base in reversed(cls.__mro__)
            for name, member in _declared(base).items()
        }
        if not abstract:
            _complete(cls)

    @classmethod
    def supply(cls, name: str, declaration: Declaration) -> Method | None:  # noqa: ARG003
        """Return what does an operation for which the class has no plan; None if nothing does.

        A wrapper may supply some by what was declared of them.
        """
        return None


def _declared(kind: type) -> dict[str, Method]:
    """Return the operations that a class declares itself; what it binds wraps declared ones."""
    return {
        name: member
        for name, member in vars(kind).items()
        if "declaration" in getattr(member, "__dict__", ()) and not hasattr(member, "__wrapped__")
    }


def _complete(facet: type[Facet]) -> None:
    """Make methods of what the class binds, or raise TypeError."""
    missing = []
    for name, method in facet.operations.items():
        member = getattr_static(facet, name)
        if isinstance(member, Binding):
            setattr(facet, name, member.method(method))
        elif member is method:
            supplied = facet.supply(name, declaration_of(method))
            if supplied is None:
                missing.append(name)
            else:
                setattr(facet, name, update_wrapper(supplied, method))
    unknown = [name for name, member in vars(facet).items() if isinstance(member, Binding)]
    if missing:
        raise TypeError(f"{facet.__name__} has no plan for {', '.join(missing)}")
    if unknown:
        raise TypeError(f"{facet.__name__} binds {', '.join(unknown)}, which nothing declares")


class Binding:
    """A plan that waits for the declaration of its operation."""

    def __init__(self, make: Callable[[Declaration], Method]) -> None:
        self._make = make

    def method(self, declared: Method) -> Method:
        """Return the method that makes the operation."""
        return update_wrapper(self._make(declaration_of(declared)), declared)


def planned(
    method: Callable[Concatenate[S, P], Plan[T]],
) -> Callable[Concatenate[S, P], Operation[T]]:
    """Make a method that returns a plan into one that returns the operation of its name."""

    def make(declaration: Declaration) -> Method:
        def operate(self: Any, /, *args: Any, **kwargs: Any) -> Operation[T]:
            return Operation(declaration, partial(method, self, *args, **kwargs), args)

        return operate

    return cast(Callable[Concatenate[S, P], Operation[T]], Binding(make))


class BoundFacet(Facet, Generic[E], abstract=True):
    """A facet of an engine, whose plans are given the engine's environment first."""

    def __init__(self, env: E, reading: E | None = None) -> None:
        self._env = env
        self._reading = env if reading is None else reading
        """What operations that only read are given, if that is another environment."""


class Binder(Generic[E]):
    """Binds plans of an engine to the operations of a ``BoundFacet``."""

    def __call__(
        self, plan: Callable[Concatenate[E, P], Plan[T]]
    ) -> Callable[Concatenate[Any, P], Operation[T]]:
        """Return what becomes a method; its types are those of *plan* without the environment."""

        def make(declaration: Declaration) -> Method:
            def read(self: Any, /, *args: Any, **kwargs: Any) -> Operation[T]:
                return Operation(declaration, partial(plan, self._reading, *args, **kwargs), args)

            def write(self: Any, /, *args: Any, **kwargs: Any) -> Operation[T]:
                return Operation(declaration, partial(plan, self._env, *args, **kwargs), args)

            return read if declaration.effect is Effect.READ else write

        return cast(Callable[Concatenate[Any, P], Operation[T]], Binding(make))
