"""Counters and log events: structured, named in one place, and never a payload."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.worker.support import drain, working

from fencepost import App, Context, PermanentError, Retry
from fencepost.observe import log as log_module
from fencepost.observe import names
from fencepost.observe.counters import Counters, key_of
from fencepost.observe.log import ConsoleFormatter, JsonFormatter, configure, log

SECRET = "hunter2-hunter2"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Everything that is logged, as JSON, down to the last detail."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = log_module.logger
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def entries(lines: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


# Counters.


def test_counters_add_up_by_name_and_labels() -> None:
    counters = Counters()
    counters.add("a")
    counters.add("a", 2, state="x")
    counters.add("a", 0.5, state="x", kind="k")
    assert counters.get("a") == 3.5
    assert counters.get("a", state="x") == 2.5
    assert counters.get("a", kind="k", state="x") == 0.5
    assert counters.get("b") == counters.get("a", state="y") == 0
    assert counters.snapshot() == {"a": 1, "a{state=x}": 2, "a{kind=k,state=x}": 0.5}


def test_keys_that_were_made_before_count_as_names_and_labels_do() -> None:
    counters = Counters()
    counters.add("a", state="x", kind="k")
    counters.add_all(((key_of("a", kind="k", state="x"), 2), (key_of("b"), 0.5)))
    assert counters.snapshot() == {"a{kind=k,state=x}": 3, "b": 0.5}


def test_looking_at_a_counter_does_not_make_one() -> None:
    counters = Counters()
    counters.get("a", state="x")
    assert counters.snapshot() == {}


def test_counters_can_be_added_to_from_any_thread() -> None:
    counters = Counters()

    def add() -> None:
        for _ in range(2_000):
            counters.add("a", state="x")

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.get("a") == 16_000


# Names.


def test_every_name_is_unique_and_reads_as_an_event() -> None:
    values = [value for name, value in vars(names).items() if name.isupper()]
    assert len(set(values)) == len(values)
    assert all("." in value and value == value.lower() for value in values)


def test_events_are_named_in_one_place_only() -> None:
    """No module writes a name of its own into a log line or a counter."""
    package = Path(log_module.__file__).parent.parent
    for path in package.rglob("*.py"):
        text = path.read_text()
        for call in ('log("', 'counters.add("', "counters.add(f", "log(f"):
            assert f" {call}" not in text, f"{path} names its own event"
            assert f".{call}" not in text or call == 'log("', f"{path} names its own counter"


# Formatting.


def record(event: str, **fields: object) -> logging.LogRecord:
    """Return the record that ``log`` makes."""
    made: list[logging.LogRecord] = []
    logger = logging.getLogger("tests.observe.record")

    def keep(record: logging.LogRecord) -> bool:
        made.append(record)
        return False

    logger.filters[:] = [keep]
    log_module.write(event, fields, level=logging.WARNING, to=logger)
    made[0].created = 1_700_000_000.25
    return made[0]


def test_the_console_shows_time_level_event_and_fields() -> None:
    text = ConsoleFormatter().format(record("job.settled", id="j1", seconds=1.23456, note="a b"))
    assert text == '22:13:20.250 WARNING job.settled id=j1 seconds=1.235 note="a b"'


@pytest.mark.parametrize(
    ("value", "shown"),
    [("", '""'), ('say "x"', '"say \\"x\\""'), (7, "7"), ("a\nb c", '"a\\nb c"')],
)
def test_a_value_that_would_break_the_line_is_quoted(value: object, shown: str) -> None:
    assert ConsoleFormatter().format(record("e", v=value)).endswith(f" e v={shown}")


@pytest.mark.parametrize("value", ["a\nb", "a\tb", "a=b\r"])
def test_an_event_is_one_line_whatever_its_fields(value: str) -> None:
    """A handler's message must not be able to forge a second event."""
    assert len(ConsoleFormatter().format(record("e", v=value)).splitlines()) == 1


def test_json_lines_are_objects() -> None:
    entry = json.loads(
        JsonFormatter().format(record("job.settled", id="j1", error=ValueError("x")))
    )
    assert entry == {
        "at": "2023-11-14T22:13:20.250000+00:00",
        "level": "warning",
        "event": "job.settled",
        "id": "j1",
        "error": "x",
    }


def test_exceptions_are_shown_by_both() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        made = record("e")
        made.exc_info = sys.exc_info()
    assert "ValueError: why" in ConsoleFormatter().format(made)
    assert "ValueError: why" in json.loads(JsonFormatter().format(made))["exception"]


def test_what_a_handler_raised_cannot_forge_a_line_of_the_log() -> None:
    text = "why\n09:15:01.234 INFO    job.settled\x1b[2J\x9b\u202e\x7f"
    try:
        raise ValueError(text)
    except ValueError:
        made = record("e")
        made.exc_info = sys.exc_info()
    _, *lines = ConsoleFormatter().format(made).split("\n")
    assert all(line.startswith("  ") and line.isprintable() for line in lines)
    assert JsonFormatter().format(made).isprintable()
    assert text in json.loads(JsonFormatter().format(made))["exception"]


def test_records_of_other_libraries_can_be_formatted_too() -> None:
    made = logging.LogRecord("x", logging.INFO, "f", 1, "hello %s", ("you",), None)
    assert "hello you" in ConsoleFormatter().format(made)
    entry = json.loads(JsonFormatter().format(made))
    assert (entry["logger"], entry["message"]) == ("x", "hello you")


@pytest.mark.parametrize("as_json", [True, False])
def test_configuring_writes_to_standard_error(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    root, logger = logging.getLogger(), log_module.logger
    before = (root.handlers[:], root.level, logger.level)
    try:
        configure(level="warning", style="json" if as_json else "text")
        log("too.quiet", level=logging.INFO)
        log("job.settled", level=logging.WARNING, id="j1")
    finally:
        root.handlers[:], root.level, logger.level = before
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "too.quiet" not in captured.err
    assert ('"id": "j1"' if as_json else "id=j1") in captured.err


# What is logged.


async def test_no_payload_result_or_checkpoint_is_ever_logged(
    tmp_path: Path, lines: io.StringIO
) -> None:
    """S1-95: at no level, whatever becomes of the job."""
    with App(f"sqlite:///{tmp_path}/jobs.db", retry=Retry(initial_delay=0.01)) as app:

        @app.task
        async def login(ctx: Context, password: str) -> str:
            ctx.checkpoint({"password": password})
            if ctx.attempt == 1:
                raise TimeoutError("the network")
            return password

        @app.task
        async def refuse(password: str) -> None:
            raise PermanentError("no")

        job = login.using(key="k").submit(SECRET)
        refuse.submit(SECRET)
        cancelled = login.submit(SECRET)
        cancelled.cancel()
        async with working(app):
            assert await job.aio.result(10) == SECRET
        app.dead_letters.replay_all()
        await drain(app)
    assert SECRET not in lines.getvalue()
    assert len(entries(lines)) > 10


async def test_every_transition_of_a_job_is_an_event_with_its_id(
    tmp_path: Path, lines: io.StringIO
) -> None:
    """S1-108: from its submission to its end, the correlation id where the attempt is known."""
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        async def work() -> None: ...

        job = work.using(correlation_id="c1").submit()
        await drain(app)
    mine = [entry for entry in entries(lines) if entry.get("id") == job.id]
    assert [entry["event"] for entry in mine] == [
        "job.enqueued",
        "attempt.started",
        "attempt.succeeded",
        "job.settled",
    ]
    assert [entry.get("state") for entry in mine] == ["scheduled", None, "completed", "completed"]
    assert {entry.get("correlation_id") for entry in mine[1:3]} == {"c1"}
    events = [entry["event"] for entry in entries(lines)]
    assert {"worker.started", "worker.stopping", "worker.stopped"} <= set(events)


def test_nothing_is_written_unless_somebody_listens(capfd: pytest.CaptureFixture[str]) -> None:
    log("job.settled", level=logging.DEBUG, id="j1")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
