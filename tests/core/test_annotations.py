"""What annotations of handlers mean: each is enforced, or refused when the task is declared."""

from __future__ import annotations

import collections.abc
import enum
import fractions
import re
import typing
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest
from msgspec import Meta
from pydantic import AfterValidator, BaseModel, Field, HttpUrl, SecretStr, StringConstraints
from typing_extensions import TypeAliasType

from fencepost import App, ConfigurationError, InvalidPayloadError
from fencepost.core.job.task import Task


class Model(BaseModel):
    a: int


class OtherModel(BaseModel):
    b: str


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    a: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    a: int


class Login(BaseModel):
    user: str
    password: SecretStr | None


class OpenLogin(BaseModel):
    password: SecretStr

    @pydantic.field_serializer("password")
    def written(self, value: SecretStr) -> str:
        return value.get_secret_value()


@dataclass
class Plain:
    a: int


@dataclass
class OtherPlain:
    b: int


@dataclass
class Car:
    by_year: dict[int, datetime]
    kind: Literal["car", "van"] = "car"


@dataclass
class Bike:
    kind: Literal["bike"] = "bike"


@dataclass
class Holder:
    path: Path


@dataclass
class Constrained:
    n: Annotated[int, Field(gt=0)]


@dataclass
class Tree:
    """A recursive type, with a described field and a NewType."""

    id: UserId
    name: Annotated[str, "of the node"]
    child: Tree | None = None


UserId = NewType("UserId", int)
Age = NewType("Age", Annotated[int, Field(ge=0)])


@pydantic.dataclasses.dataclass
class Validated:
    a: Annotated[int, Field(gt=0)]


Positive = TypeAliasType("Positive", Annotated[int, Field(gt=0)])


@dataclass
class WithConstants:
    key: ClassVar[Opaque | SecretStr | None] = None
    a: int = 0


class ModelWithState(BaseModel):
    a: int
    _secret: SecretStr | None = None


class Untagged(msgspec.Struct):
    a: int


class AlsoUntagged(msgspec.Struct):
    b: int


class Tagged(msgspec.Struct, tag=True):
    a: int


class AlsoTagged(msgspec.Struct, tag=True):
    b: int


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    a: int
    b: int


class Fields(TypedDict):
    a: int


class Opaque:
    pass


def declared(kind: Any, default: Any = None) -> Task:
    """Return a task whose one parameter has this annotation."""

    def work(x):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    work.__annotations__ = {"x": kind}
    if default is not None:
        work.__defaults__ = (default,)
    app = App("memory://")
    app.task(work)
    return app.session.tasks["work"]


WORKS: list[tuple[Any, Any, Any]] = [
    # The annotation, a value that reaches the handler as it is, and one that is refused.
    (Annotated[int, Meta(gt=0)], 5, 0),
    (Annotated[int, Field(gt=0)], 5, 0),
    (Annotated[int, Field(ge=1, le=9, multiple_of=3, description="of three")], 9, 10),
    (Annotated[str, Field(min_length=2, max_length=3)], "ab", "abcd"),
    (Annotated[str, Field(pattern="^a")], "abc", "b"),
    (Annotated[int, Field(..., gt=0)], 5, 0),
    (Annotated[int, Field(description="any")], -5, "x"),
    (Positive, 5, 0),
    (list[Positive], [5], [0]),
    (WithConstants, WithConstants(a=1), 3),
    (ModelWithState, ModelWithState(a=1), 3),
    (Annotated[int, "any comment"], -5, "x"),
    (Annotated[int, annotated_types.Gt(0)], 5, 0),
    (Annotated[int, annotated_types.Interval(gt=0, lt=9)], 5, 9),
    (Annotated[list[int], annotated_types.Len(1, 2)], [1], []),
    (pydantic.PositiveInt, 5, -5),
    (pydantic.conint(gt=0), 5, -5),
    (pydantic.constr(pattern=re.compile("^a")), "a", "b"),
    (Annotated[str, StringConstraints(min_length=2)], "ab", "a"),
    (list[Annotated[int, Field(gt=0)]], [5], [0]),
    (dict[str, Annotated[int, Field(gt=0)]], {"a": 5}, {"a": 0}),
    (tuple[Annotated[int, Field(gt=0)], ...], (5,), (0,)),
    (Annotated[int, Field(gt=0)] | None, None, 0),
    (Age, 5, -1),
    (UserId, 5, "x"),
    (Annotated[Model, Field(description="a model")], Model(a=1), 3),
    (Path, Path("/a/b"), 3),
    (PurePosixPath, PurePosixPath("a"), 3),
    (list[Path] | None, [Path("a")], [3]),
    (Path | None, None, 3),
    (Holder, Holder(Path("a")), 3),
    (IPv4Address, IPv4Address("10.0.0.1"), "10.0.0"),
    (IPv6Address, IPv6Address("::1"), "::x"),
    (IPv4Network, IPv4Network("10.0.0.0/8"), "10.0.0.1/8"),
    (HttpUrl, HttpUrl("https://a.b/"), "nowhere"),
    (pydantic.PostgresDsn, pydantic.PostgresDsn("postgres://a@b/c"), "https://a.b/"),
    (uuid.UUID, uuid.UUID(int=1), "x"),
    (Decimal, Decimal("1.5"), "x"),
    (datetime, datetime(2026, 1, 1, tzinfo=UTC), "x"),
    (date, date(2026, 1, 1), "x"),
    (timedelta, timedelta(days=1), "x"),
    (Colour, Colour.RED, "blue"),
    (Pair, Pair(1, 2), [1]),
    (Fields, {"a": 1}, {"a": "x"}),
    (collections.abc.Sequence[int], [1], 3),
    (frozenset[int], frozenset([1]), 3),
    (Tree, Tree(UserId(1), "a", Tree(UserId(2), "b")), 3),
    (Model, Model(a=1), {"a": "x"}),
    (Model | None, Model(a=1), {"b": 1}),
    (OpenLogin, OpenLogin(password=SecretStr("x")), 3),
    (Plain | None, Plain(a=1), {"b": 1}),
    (Tagged | AlsoTagged, AlsoTagged(b=1), {"b": 1}),
    (Cat | Dog, Dog(a=1), {"a": 1}),
    (Cat | Dog | None, None, {"a": 1, "kind": "cow"}),
    (Annotated[Cat | Dog, Field(discriminator="kind")], Dog(a=1), {"kind": ["dog"]}),
    (list[Car | Bike], [Bike(), Car({1: datetime(2026, 1, 1, tzinfo=UTC)}, kind="van")], [3]),
    (dict[str, Cat | Bike], {"a": Cat(a=1), "b": Bike()}, {"a": {"kind": "car"}}),
    (Any, 1, NotImplemented),
    (object, [1], NotImplemented),
]


def shown(kind: Any) -> str:
    return re.sub(r"[\w.]*\.(\w+)", r"\1", str(getattr(kind, "__name__", kind)))


@pytest.mark.parametrize(("kind", "good", "bad"), WORKS, ids=[shown(each[0]) for each in WORKS])
def test_an_annotation_is_enforced(kind: Any, good: Any, bad: Any) -> None:
    signature = declared(kind).signature
    assert signature.decode(signature.encode((good,), {})) == ([], {"x": good})
    with pytest.raises(InvalidPayloadError):
        signature.encode((bad,), {})


TOLD_APART = "cannot be told apart in JSON; give each a field with its own value"
NO_FORM = "has no JSON form; take str"
REFUSED: list[tuple[Any, str]] = [
    (Annotated[int, Field(default=3)], r"Field\(default=…\) of an annotation would be ignored"),
    (Annotated[int, Field(alias="y")], r"Field\(alias=…\) .* constrain it with msgspec\.Meta"),
    (Annotated[int, AfterValidator(abs)], r"AfterValidator\(func=…\) .* be ignored"),
    (Annotated[str, StringConstraints(to_upper=True)], r"StringConstraints\(to_upper=…\)"),
    (Annotated[int, annotated_types.Predicate(bool)], r"Predicate\(func=…\)"),
    (Annotated[Decimal, Field(max_digits=3)], r"Field\(max_digits=…\)"),
    (Annotated[int, Field(discriminator="kind")], "is for a union of Pydantic models"),
    (Annotated[Cat | Dog, Field(discriminator="a")], TOLD_APART),
    (Annotated[str, Field(gt=0)], "Can only set `gt` on a numeric type"),
    (Annotated[int | None, Field(gt=0)], "Can only set `gt` on a numeric type"),
    (Annotated[str, Meta(gt=0)], "Can only set `gt` on a numeric type"),
    (Constrained, r"Constrained\.n: its constraints .* make the class a Pydantic model"),
    (list[Constrained], r"Constrained\.n: its constraints"),
    (Validated, "the validators of the Pydantic dataclass Validated would not run"),
    (SecretStr, r"SecretStr hides its value.*App\(keys=…\)"),
    (SecretStr | None, "SecretStr hides its value"),
    (Login, r"Login\.password: SecretStr hides its value"),
    (complex, f"complex {NO_FORM}"),
    (fractions.Fraction, f"Fraction {NO_FORM}"),
    (re.Pattern[str], f"Pattern {NO_FORM}"),
    (typing.Callable, f"Callable {NO_FORM}"),
    (Opaque, f"Opaque {NO_FORM}"),
    (list[Opaque | None], f"Opaque {NO_FORM}"),
    (pydantic.EmailStr, f"EmailStr {NO_FORM}"),
    (Model | OtherModel, TOLD_APART),
    (Plain | OtherPlain, TOLD_APART),
    (Untagged | AlsoUntagged, r"Untagged \| AlsoUntagged .* msgspec Structs with tag=True"),
    (list[Model | Plain], TOLD_APART),
    (Model | int, "a union can have Model and None, and nothing else"),
    (Cat | Dog | str, r"a union can have Cat \| Dog and None, and nothing else"),
    (Path | str, "a union can have Path and None, and nothing else"),
    (datetime | str, "more than one str-like type"),
]


@pytest.mark.parametrize(("kind", "why"), REFUSED, ids=[shown(each[0]) for each in REFUSED])
def test_an_annotation_that_cannot_be_enforced_is_refused_at_declaration(
    kind: Any, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        declared(kind)
    assert str(caught.value).startswith("work(): ")


@pytest.mark.parametrize(
    ("kind", "default"),
    [(Path, Path("a")), (Cat | Dog, Cat(a=1)), (Annotated[int, Field(gt=0)], 1)],
)
def test_a_default_does_not_change_that(kind: Any, default: Any) -> None:
    signature = declared(kind, default).signature
    assert signature.decode(signature.encode((), {})) == ([], {})
    assert signature.decode(signature.encode((default,), {})) == ([], {"x": default})
    with pytest.raises(InvalidPayloadError):
        signature.encode((0,), {})


def test_a_parameter_with_a_default_may_have_a_type_for_direct_calls_only(memory: App) -> None:
    @memory.task
    def work(n: int, client: Opaque | None = None) -> int:
        return n

    assert work.submit(1).type == "work"
    assert work(2, Opaque()) == 2
    with pytest.raises(InvalidPayloadError, match="Opaque has no JSON form"):
        work.submit(1, Opaque())
    with pytest.raises(ConfigurationError, match="SecretStr hides"):

        @memory.task
        def other(secret: SecretStr | None = None) -> None: ...


def test_a_field_in_the_place_of_a_default_is_refused(memory: App) -> None:
    with pytest.raises(ConfigurationError, match=r"write Annotated\[…, Field\(…\)\]"):

        @memory.task
        def work(n: int = Field(gt=0)) -> None: ...


def test_starred_parameters_are_checked_too(memory: App) -> None:
    with pytest.raises(ConfigurationError, match="'rest': SecretStr hides"):

        @memory.task
        def some(*rest: SecretStr) -> None: ...

    with pytest.raises(ConfigurationError, match="'more': Opaque has no JSON form"):

        @memory.task
        def named(**more: Opaque) -> None: ...

    @memory.task
    def paths(*rest: Annotated[int, Field(gt=0)], **more: Path) -> None: ...

    signature = memory.session.tasks["paths"].signature
    assert signature.decode(signature.encode((1, 2), {"a": Path("b")})) == (
        [1, 2],
        {"a": Path("b")},
    )
    with pytest.raises(InvalidPayloadError):
        signature.encode((1, 0), {})


@pytest.fixture
def memory() -> App:
    return App("memory://")


def test_a_result_that_travels_as_text_comes_back_as_it_was(memory: App) -> None:
    @memory.task
    def where() -> Path:
        return Path("/a")

    job = where.submit()
    memory.worker().run(until_idle=True)
    assert job.result() == Path("/a")
