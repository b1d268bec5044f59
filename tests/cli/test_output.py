"""Tables and lines for terminals and pipes."""

from __future__ import annotations

import json
import sys

import pytest

from fencepost.cli.output import (
    clean,
    clean_lines,
    echo_json,
    echo_json_line,
    echo_table,
    plain_lines,
    progress_bar,
)
from fencepost.core.job.lifecycle import State


def test_a_table_in_a_pipe_is_aligned_and_one_line_a_row() -> None:
    lines = plain_lines(("A", "LONGER"), [("x", 1), ("two\nlines", None)])
    assert lines == ["A           LONGER", "x           1", r"two\nlines"]


def test_what_a_job_says_cannot_steer_a_terminal() -> None:
    assert clean("\x1b[31mred\x07\r\n") == r"\x1b[31mred\x07\r\n"
    assert clean("\x9b2J\x7f\u202eeman\u2066\u2028") == r"\x9b2J\x7f\u202eeman\u2066\u2028"
    assert clean("Grüße, 日本") == "Grüße, 日本"
    assert clean(None) == ""


def test_lines_that_a_text_has_by_right_are_cleaned_one_by_one() -> None:
    assert clean_lines("a\x1b\nb\u2028c\rd") == [r"a\x1b", r"b\u2028c\rd"]


def test_json_says_the_same_in_printable_characters(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a\x9b": "x\x00\n\x7f\x85\u061c\u200e\u202e\u2066\U000e0001é\u2028 ok"}
    echo_json(value)
    echo_json_line(value)
    document = capsys.readouterr().out
    assert all(line.isprintable() for line in document.split("\n"))
    assert "é" in document
    whole, _, line = document.rpartition("\n{")
    assert json.loads(whole) == json.loads("{" + line) == value


def test_a_table_on_a_terminal_is_drawn_and_cleaned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    echo_table(("ID", "STATE"), [("a\x1b[2Jb", State.COMPLETED)])
    drawn = capsys.readouterr().out
    assert "\x1b[32mcompleted" in drawn
    assert "a\\x1b[2Jb" in drawn


def test_no_color_is_honoured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    echo_table(("ID", "STATE"), [("x", State.COMPLETED)])
    assert "\x1b[32m" not in capsys.readouterr().out


def test_an_empty_table_says_so_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    echo_table(("ID",), [], empty="no such jobs")
    assert capsys.readouterr().out == "ID\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    echo_table(("ID",), [], empty="no such jobs")
    assert capsys.readouterr().out == "no such jobs\n"


def test_a_progress_bar_is_silent_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("replayed", 10) as advance:
        advance(10)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
