"""What the command line reads: options, payloads, names of apps, and whole lines."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from click.testing import CliRunner, Result
from hypothesis import strategies as st

from fencepost.cli.apps import find_app
from fencepost.cli.commands.move import _check as _check_move
from fencepost.cli.commands.submit import parse_payload
from fencepost.cli.commands.upkeep import roles_script
from fencepost.cli.commands.worker import parse_queues
from fencepost.cli.main import cli
from fencepost.cli.options import DURATION, TAG, Settings, parse_priority_text
from fencepost.cli.output import clean, clean_lines, plain_lines
from fencepost.core.display import printable_json
from fencepost.core.job.job import Body, Encoding
from fencepost.core.job.policy import parse_priority
from fencepost.core.moves import MOVED, MOVING, mark_of
from fencepost.core.values.payload import body_fields
from fencepost.errors import ConfigurationError, InvalidJobError
from fencepost.store.interface.records.overview import QueueView
from lab.fuzz.core_targets import cursors, duration_texts, names, uuids
from lab.fuzz.inputs import bent, json_values, raw_bytes, raw_text
from lab.fuzz.payload_targets import documents
from lab.fuzz.store_targets import urls
from lab.fuzz.target import Target

USAGE = (click.UsageError,)

hostile = st.text(
    st.sampled_from("a\n\r\x1b[2J\x9b\x85\x7f\x00\u061c\u200e\u202e\u2066\u2028\U000e0001")
)
weights = st.builds(lambda name, weight: f"{name}={weight}", names, st.integers(-1, 200)) | names
payload_texts = json_values.map(lambda value: msgspec.json.encode(value).decode())
lines = st.one_of(
    st.tuples(st.just("jobs ls"), st.sampled_from(["--state", "--type", "--queue", "--tag",
                                                   "--limit", "--after", "--correlation-id"]),
              bent(names | cursors)),
    st.tuples(st.just("jobs show"), st.none(), bent(uuids)),
    st.tuples(st.just("jobs retry"), st.sampled_from(["--delay", "--priority"]), bent(names)),
    st.tuples(st.just("dlq ls"), st.sampled_from(["--type", "--limit"]), bent(names)),
    st.tuples(st.just("queues pause"), st.none(), bent(names)),
    st.tuples(st.sampled_from(["cron run", "cron pause", "cron forget", "cron next"]), st.none(),
              bent(names)),
    st.tuples(st.just("cron next x"), st.just("--count"), bent(names)),
    st.tuples(st.just("queues limit"), st.sampled_from(["--app"]), bent(names)),
    st.tuples(st.just("submit --raw work"), st.none(), bent(payload_texts)),
    st.tuples(st.just("submit --raw work {}"),
              st.sampled_from(["--delay", "--key", "--priority", "--queue", "--tag", "--timeout"]),
              bent(duration_texts | names)),
    st.tuples(st.just("version"), st.sampled_from(["--url", "--log-level"]), bent(names)),
)  # fmt: skip


def _type(line: tuple[str, str | None, str]) -> Result:
    verb, option, value = line
    words = [*verb.split(), *([] if option is None else [option]), value]
    return CliRunner().invoke(cli, ["--url", "memory://", *words], input="")


def _check_line(_: Any, result: Result) -> None:
    assert result.exit_code in (0, 1, 2), result.exit_code
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "(internal)" not in result.output, result.output[:300]
    _check_lines(None, result.output)


def _check_lines(_: Any, written: str) -> None:
    """See that nothing that was written steers a terminal."""
    for line in written.split("\n"):
        assert line.isprintable(), ascii(line[:300])


def _write_json(value: Any) -> str:
    return printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _check_json(value: Any, written: str) -> None:
    _check_lines(value, written)
    assert msgspec.json.decode(written) == msgspec.json.decode(msgspec.json.encode(value))


def _check_clean(given: str, line: str) -> None:
    _check_table(given, [line])
    assert not given.isprintable() or line == given


def _check_table(_: Any, written: list[str]) -> None:
    assert all(each.isprintable() for each in written), ascii(written)[:300]


def _check_rows(given: list[tuple[str, str]], written: list[str]) -> None:
    _check_table(given, written)
    assert len(written) == 1 + len(given)


def _priority(text: str) -> Any:
    number = parse_priority_text(text)
    return None if number is None else parse_priority(number)


def _name_of_app(text: str) -> Any:
    # A module that is there would be imported, and what it does is not the parser's doing.
    return find_app(f"fencepost_fuzz_{text}", Settings())


def _check_view(_: Body, view: dict[str, Any]) -> None:
    assert len(view) == 1


def _views(given: list[tuple[str, bool]]) -> list[QueueView]:
    return [QueueView(name=name, is_paused=is_paused) for name, is_paused in given]


CLI_TARGETS = (
    Target("--delay and other durations", lambda text: DURATION.convert(text, None, None),
           bent(duration_texts), USAGE),
    Target("--tag", lambda text: TAG.convert(text, None, None), bent(weights), USAGE),
    Target("--priority", _priority, bent(st.sampled_from(["HIGH", "low", "0", "4"])),
           (InvalidJobError,)),
    Target("--queue NAME=WEIGHT", lambda text: parse_queues((text,)), bent(weights), USAGE),
    Target("JSON of submit", lambda text: parse_payload(f" {text}", must_be_object=False),
           bent(payload_texts), USAGE),
    Target("MODULE:ATTRIBUTE", _name_of_app, bent(names), (ConfigurationError,)),
    Target("mark of a move", lambda given: mark_of(_views(given)),
           st.lists(st.tuples(bent(st.sampled_from([MOVING, MOVED])), st.booleans()))),
    Target("stored body, shown", lambda body: body_fields("payload", body),
           st.builds(Body, documents | raw_bytes, st.sampled_from(Encoding)), (), _check_view),
    Target("line for a terminal", clean, raw_text | hostile, (), _check_clean),
    Target("lines for a terminal", clean_lines, raw_text | hostile, (), _check_table),
    Target("table for a pipe", lambda rows: plain_lines(("A", "B"), rows),
           st.lists(st.tuples(raw_text | hostile, raw_text)), (), _check_rows),
    Target("--json", _write_json, json_values | st.dictionaries(hostile, hostile), (), _check_json),
    Target("URLs of move", lambda given: _check_move(*given), st.tuples(urls, urls), USAGE),
    Target("URL of migrate --roles", lambda url: roles_script(Settings(url=url)), urls, USAGE),
    Target("command line", _type, lines | lines.map(lambda line: (*line[:2], "")) |
           st.tuples(raw_text.filter(str.split), st.none(), raw_text), (), _check_line),
)  # fmt: skip
