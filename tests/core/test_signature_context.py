"""The context among a handler's parameters, and annotations that are not what they seem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from tests.core.test_payload import Pair, Point
from tests.core.test_signature import Context, blob, plain, run, signature, submit

from fencepost.core.job.job import Body
from fencepost.errors import ConfigurationError, InvalidPayloadError

if TYPE_CHECKING:
    import nowhere  # type: ignore[import-not-found]  # that there is no such module is the point
    from nowhere import Missing


def context_first(ctx: Context, a: int, b: int = 2) -> Any:
    return a, b


def context_amid(a: int, ctx: Context, b: int = 2) -> Any:
    return a, b


def context_last(a: int, b: int = 2, *, ctx: Context) -> Any:
    return a, b


def context_optional(a: int, b: int = 2, ctx: Context | None = None) -> Any:
    return a, b


def context_annotated(a: int, ctx: Annotated[Context, "mine"], b: int = 2) -> Any:
    return a, b


def context_after_star(*rest: int, ctx: Context) -> Any:
    return rest


@pytest.mark.parametrize(
    "handler",
    [
        *(context_first, context_amid, context_last, context_optional, context_annotated),
        context_after_star,
    ],
)
def test_the_context_may_stand_anywhere_and_is_never_submitted(handler: Callable[..., Any]) -> None:
    """S1-75..S1-78, S1-104: the worker provides it."""
    assert signature(handler).context_name == "ctx"
    assert run(handler, submit(handler, 5, 6), ctx=Context()) == (5, 6)
    with pytest.raises(InvalidPayloadError):
        submit(handler, 5, ctx=None)
    with pytest.raises(InvalidPayloadError):
        signature(handler).decode(Body(b'{"a":5,"ctx":null}'))


def test_a_handler_need_not_want_a_context() -> None:
    """S1-75."""
    assert signature(plain).context_name is None


def test_a_context_that_the_worker_could_not_pass_is_refused_at_once() -> None:
    """S1-75: at the decorator."""

    def two(a: Context, b: Context) -> None: ...

    def nameless(a: Context, /) -> None: ...

    def many(*a: Context) -> None: ...

    def before_star(a: Context, *rest: int) -> None: ...

    for handler, message in (
        (two, r"only one parameter may be a Context: \['a', 'b'\]"),
        (nameless, "'a' must be one that has a name"),
        (many, "'a' must be one that has a name"),
        (before_star, "'a' must come after the starred one"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            signature(handler)


def unresolvable(user_id: int, thing: Missing, ctx: Context) -> Missing:
    return user_id, thing


def test_an_annotation_that_cannot_be_resolved_leaves_only_its_own_parameter_unchecked() -> None:
    """S1-93."""
    assert run(unresolvable, submit(unresolvable, 7, {"x": 1}), ctx=None) == (7, {"x": 1})
    with pytest.raises(InvalidPayloadError, match=r"\$\.user_id"):
        submit(unresolvable, "7", {})
    assert signature(unresolvable).return_type is Any


def test_a_context_imported_for_the_type_checker_only_is_known_by_its_name() -> None:
    """S1-75."""

    def dotted(a: int, ctx: nowhere.Context) -> Any: ...

    def optional(a: int, ctx: nowhere.Context | None = None) -> Any: ...

    def other(a: int, ctx: nowhere.Context2) -> Any: ...

    assert signature(dotted).context_name == "ctx"
    assert signature(optional).context_name == "ctx"
    assert signature(other).context_name is None


def test_the_type_of_the_result_is_known() -> None:
    """S1-16."""
    assert signature(blob).return_type is bytes
    assert signature(lambda: 1).return_type is Any


def test_a_type_that_cannot_be_read_back_is_refused_at_the_decorator() -> None:
    """S1-93: not at the first submission."""

    def ambiguous(a: Point | Pair) -> None: ...

    def ambiguous_extra(**a: list[int] | set[int]) -> None: ...

    def nonsense(a: 5 = 1) -> None: ...  # type: ignore[valid-type]  # as a user may write it

    for handler in (ambiguous, ambiguous_extra, nonsense):
        with pytest.raises(ConfigurationError, match=rf"{handler.__name__}\(\): "):
            signature(handler)


def test_a_handler_need_not_be_a_plain_function() -> None:
    """S1-93."""

    class Greeter:
        def __call__(self, name: str) -> str:
            return name

        def method(self, name: str) -> str:
            return name

    @functools.wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert run(Greeter(), submit(Greeter(), "x")) == "x"
    assert run(Greeter().method, submit(Greeter().method, "x")) == "x"
    assert run(wrapped, submit(wrapped, 7)) == (7, "-")
    with pytest.raises(InvalidPayloadError, match=r"\$\.user_id"):
        submit(wrapped, "7")
    partial = functools.partial(plain, note="hi")
    assert run(partial, submit(partial, 7)) == (7, "hi")
    with pytest.raises(InvalidPayloadError, match=r"partial\(\)"):
        submit(partial)
