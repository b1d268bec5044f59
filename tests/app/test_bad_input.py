"""Bad input: a clear error with a stable code, and nothing stored."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from fencepost import (
    App,
    ConfigurationError,
    FencepostError,
    InvalidJobError,
    InvalidPayloadError,
    NewJob,
    PayloadTooLargeError,
    Retention,
    Retry,
    TaskHandle,
    Timeouts,
)
from fencepost.errors import InvalidDurationError, InvalidKeyError

NAIVE = dt.datetime(2030, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)

OPTIONS: list[tuple[dict[str, Any], type[FencepostError], str]] = [
    ({"priority": -1}, InvalidJobError, "invalid_job"),
    ({"priority": 5}, InvalidJobError, "invalid_job"),
    ({"priority": "urgent"}, InvalidJobError, "invalid_job"),
    ({"priority": 1.5}, InvalidJobError, "invalid_job"),
    ({"priority": True}, InvalidJobError, "invalid_job"),
    ({"queue": ""}, InvalidJobError, "invalid_job"),
    ({"queue": "q" * 101}, InvalidJobError, "invalid_job"),
    ({"queue": "a\nb"}, InvalidJobError, "invalid_job"),
    ({"queue": 7}, InvalidJobError, "invalid_job"),
    ({"key": ""}, InvalidKeyError, "invalid_key"),
    ({"key": "k" * 257}, InvalidKeyError, "invalid_key"),
    ({"key": "\ud800"}, InvalidKeyError, "invalid_key"),
    ({"key": 7}, InvalidKeyError, "invalid_key"),
    ({"on_duplicate": "replace"}, ConfigurationError, "configuration"),
    ({"key": "k", "key_window": -1}, InvalidDurationError, "invalid_duration"),
    ({"delay": -1}, InvalidDurationError, "invalid_duration"),
    ({"delay": "soon"}, InvalidDurationError, "invalid_duration"),
    ({"delay": float("nan")}, InvalidDurationError, "invalid_duration"),
    ({"delay": float("inf")}, InvalidDurationError, "invalid_duration"),
    ({"delay": 1e12}, InvalidDurationError, "invalid_duration"),
    ({"delay": True}, InvalidDurationError, "invalid_duration"),
    ({"timeout": 0}, InvalidDurationError, "invalid_duration"),
    ({"timeout": "31m"}, InvalidJobError, "invalid_job"),
    ({"lease_ttl": 0.9}, InvalidDurationError, "invalid_duration"),
    ({"lifetime": 0}, InvalidDurationError, "invalid_duration"),
    ({"lifetime": "4000d"}, InvalidDurationError, "invalid_duration"),
    ({"run_at": NAIVE}, InvalidJobError, "invalid_job"),
    ({"run_at": "tomorrow"}, InvalidJobError, "invalid_job"),
    (
        {"delay": 1, "run_at": dt.datetime(2030, 1, 1, tzinfo=dt.UTC)},
        InvalidJobError,
        "invalid_job",
    ),
    (
        {"run_at": dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-5)))},
        InvalidJobError,
        "invalid_job",
    ),
    ({"tags": {"": "x"}}, InvalidJobError, "invalid_job"),
    ({"tags": {"a": 1}}, InvalidJobError, "invalid_job"),
    ({"tags": ["a"]}, InvalidJobError, "invalid_job"),
    ({"tags": {str(n): "x" for n in range(33)}}, InvalidJobError, "invalid_job"),
    ({"correlation_id": ""}, InvalidJobError, "invalid_job"),
    ({"correlation_id": "c" * 257}, InvalidJobError, "invalid_job"),
    ({"retry": 3}, ConfigurationError, "configuration"),
    ({"id": "9a2c…"}, ConfigurationError, "configuration"),
    ({"state": "completed"}, ConfigurationError, "configuration"),
]


async def submit(
    task: TaskHandle[..., Any], face: str, options: Any, *args: Any, **kwargs: Any
) -> None:
    """Submit through either face."""
    if face == "sync":
        task.using(**options).submit(*args, **kwargs)
    else:
        await task.aio.using(**options).submit(*args, **kwargs)


@pytest.mark.parametrize(
    ("options", "error", "code"), OPTIONS, ids=[str(each[0])[:40] for each in OPTIONS]
)
@pytest.mark.parametrize("face", ["sync", "aio"])
async def test_an_option_that_makes_no_sense_is_refused_and_nothing_stored(
    app: App, options: dict[str, Any], error: type[FencepostError], code: str, face: str
) -> None:
    """S1-2, S1-6, S1-31, S1-45, S1-104, S1-105, C1, C3."""

    @app.task
    def work() -> None: ...

    with pytest.raises(error) as caught:
        await submit(work, face, options)
    assert caught.value.code == code
    assert str(caught.value)
    assert app.jobs.count() == 0


def test_names_and_keys_of_exactly_the_limit_are_welcome(app: App) -> None:
    """S1-6: characters count, not bytes."""

    @app.task(name="t" * 200, queue="q" * 100)
    def work() -> None: ...

    job = work.using(key="é" * 256, correlation_id="c" * 256, tags={"n" * 64: "v" * 256}).submit()
    assert job.refresh().key == "é" * 256


@pytest.mark.parametrize("name", ["", "t" * 201, "a\tb", 7])
def test_a_type_without_a_proper_name_is_refused(app: App, name: Any) -> None:
    """S1-105."""
    with pytest.raises(InvalidJobError) as caught:
        app.task(name=name)(lambda: None)
    assert caught.value.code == "invalid_job"


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("one",), {}, "Expected `int`, got `str` - at `$.a`"),
    ((), {}, "Missing required argument 'a'"),
    ((1, 2, 3, 4), {}, "work()"),
    ((1,), {"c": 1}, "work()"),
    ((1,), {"a": 1}, "work()"),
    ((None,), {}, "Expected `int`, got `null`"),
    ((1, float("nan")), {}, "NaN and infinity"),
    ((1, [float("inf")]), {}, "NaN and infinity"),
    ((1, object()), {}, "cannot be written as JSON"),
    ((1, "\ud800"), {}, "cannot be written as JSON"),
    ((1, {(1, 2): 3}), {}, "JSON"),
]


@pytest.mark.parametrize(("args", "kwargs", "says"), ARGUMENTS, ids=range(len(ARGUMENTS)))
@pytest.mark.parametrize("face", ["sync", "aio"])
async def test_arguments_that_do_not_fit_are_refused_and_nothing_stored(
    app: App, args: tuple[Any, ...], kwargs: dict[str, Any], says: str, face: str
) -> None:
    """S1-87, S1-90, S1-92."""

    @app.task
    def work(a: int, b: Any = None) -> None: ...

    with pytest.raises(InvalidPayloadError) as caught:
        await submit(work, face, {}, *args, **kwargs)
    assert caught.value.code == "invalid_payload"
    assert says in str(caught.value)
    assert app.jobs.count() == 0


def test_a_payload_over_the_limit_is_refused(url: str) -> None:
    """S1-91: 1 MB unless said otherwise, to the byte."""
    with App(url) as app:

        @app.task
        def keep(data: bytes) -> None: ...

        with pytest.raises(PayloadTooLargeError) as caught:
            keep.submit(b"x" * 1_000_001)
        assert (caught.value.code, caught.value.size) == ("payload_too_large", 1_000_001)
        assert app.jobs.count() == 0
        keep.submit(b"x" * 1_000_000)
    with App(url, max_payload=16_000_000) as large:
        large.task(keep.__wrapped__).submit(b"x" * 16_000_000)
    with App(url, max_payload=10) as small, pytest.raises(PayloadTooLargeError):
        small.task(keep.__wrapped__).submit_many([b"x" * 10, b"x" * 11])


async def test_a_caller_cannot_choose_an_id(url: str) -> None:
    """S1-2, S1-104, C16."""
    with App(url) as app:
        job = NewJob(type="mail", id=bytes(16))
        with pytest.raises(InvalidJobError, match="store assigns a job's id"):
            app.submit_many([job])
        with pytest.raises(InvalidJobError, match="store assigns a job's id"):
            await app.aio.submit_many([job])
        assert app.jobs.count() == 0


@pytest.mark.parametrize("limit", [16_000_001, 0, -1, "1MB", 1.5, True])
def test_an_absurd_payload_limit_is_refused_at_configuration(limit: Any) -> None:
    """S1-91."""
    with pytest.raises(ConfigurationError):
        App("memory://", max_payload=limit)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 10_001},
        {"max_attempts": 1.5},
        {"max_retries": -1},
        {"max_attempts": 2, "max_retries": 1},
        {"initial_delay": -1},
        {"max_delay": "forever"},
        {"multiplier": 0.5},
        {"jitter": 1.5},
        {"backoff": "fibonacci"},
    ],
    ids=str,
)
def test_a_retry_policy_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    """C1: fewer than one attempt, above all."""
    with pytest.raises(ConfigurationError):
        Retry(**options)


@pytest.mark.parametrize(
    "settings",
    [
        {"isolation": "thread"},
        {"isolation": "vm"},
        {"timeout": "31m"},
        {"timeout": -1},
        {"lease_ttl": 0},
        {"priority": 9},
        {"queue": ""},
        {"retry": "often"},
    ],
    ids=str,
)
def test_a_task_with_settings_that_make_no_sense_is_refused(
    app: App, settings: dict[str, Any]
) -> None:
    """S1-31, S1-45."""

    async def work() -> None: ...

    with pytest.raises(FencepostError):
        app.task(**settings)(work)
    assert app.session.tasks == {}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Timeouts(execution=0),
        lambda: Timeouts(lease_ttl=0.5),
        lambda: Timeouts(lease_ttl=5, visibility=5),
        lambda: Timeouts(submission=-1),
        lambda: Retention(completed=-1),
    ],
)
def test_an_app_with_settings_that_make_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "jobs.db",
        "mysql://h/db",
        "http://[::1",
        "memory://?x=1",
        "sqlite://",
        "sqlite:///",
        "sqlite:///dir/",
        "sqlite:///:memory:",
        "sqlite:///a%00b",
        "sqlite:///x.db?mode=ro",
        "sqlite:///x.db?durability=none",
        "sqlite://host/x.db",
    ],
)
def test_a_store_url_that_makes_no_sense_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if url == "":
        monkeypatch.setenv("FENCEPOST_URL", "nonsense")
    app = App(url)
    with pytest.raises(ConfigurationError) as caught:
        app.jobs.count()
    assert caught.value.code == "configuration"


def test_bad_conditions_of_a_search_are_refused(app: App) -> None:
    for conditions in ({"state": "asleep"}, {"limit": 0}, {"limit": 1001}, {"after": "x"}):
        with pytest.raises(ConfigurationError):
            app.jobs.find(**conditions)
    for limit in (0, -1, True):
        with pytest.raises(FencepostError):
            app.limit(max_running=limit)


def test_a_task_cannot_be_called_like_one_of_our_own(app: App) -> None:
    """Whoever could submit a delivery could have the app sign whatever they like."""
    with pytest.raises(InvalidJobError, match="Fencepost's own"):
        app.task(name="fencepost.webhook")(print)
