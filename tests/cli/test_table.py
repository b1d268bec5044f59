"""Tables for terminals of any width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.cli.table import Cell, lay_out
from fencepost.core.job.lifecycle import State

COLUMNS = ("ID", "TYPE", "STATE", "EMPTY", "CREATED (UTC)", "NOTE")
MESSAGE = "permanent: the mail server refused the address because its domain is gone"


def row(type: str = "send_mail", note: str = "") -> list[object]:
    job = Cell("3f2a91c0-0000-4000-8000-000000000000", "3f2a91c0")
    return [job, type, State.DEAD_LETTER, "", Cell("2026-05-01 12:00:00", "3 min ago"), note]


def texts(rows: list[list[object]], width: int, *, is_flat: bool = False) -> list[str]:
    return [line.plain for line in lay_out(COLUMNS, rows, width, is_flat=is_flat)]


def test_a_column_without_text_is_left_out_and_a_short_time_names_no_zone() -> None:
    assert texts([row()], 80) == [
        "ID        TYPE       STATE        CREATED",
        "3f2a91c0  send_mail  dead_letter  3 min ago",
    ]


def test_a_sentence_stands_beside_its_row_or_below_it() -> None:
    assert texts([row(note=MESSAGE), row()], 120)[1] == (
        f"3f2a91c0  send_mail  dead_letter  3 min ago  {MESSAGE}"
    )
    assert texts([row(note=MESSAGE), row()], 80) == [
        "ID        TYPE       STATE        CREATED",
        "3f2a91c0  send_mail  dead_letter  3 min ago",
        f"  {MESSAGE}",
        "3f2a91c0  send_mail  dead_letter  3 min ago",
    ]
    assert texts([row(note=MESSAGE)], 50)[2:] == [
        "  permanent: the mail server refused the address",
        "  because its domain is gone",
    ]


def test_a_name_that_is_too_long_is_cut_before_a_column_is_left_out() -> None:
    name = "company.shop.tasks.send_receipt_mail"
    assert texts([row(name)], 80)[1] == f"3f2a91c0  {name}  dead_letter  3 min ago"
    assert (
        texts([row(name)], 60)[1] == "3f2a91c0  company.shop.tasks.send_r…  dead_letter  3 min ago"
    )
    assert texts([row(name)], 40)[1] == "3f2a91c0  company.shop.tas…  dead_letter"
    assert texts([row(name)], 12) == ["ID", "3f2a91c0"]


def test_a_flat_table_has_one_line_a_row() -> None:
    lines = texts([row(note=MESSAGE), row()], 80, is_flat=True)
    assert len(lines) == 3
    assert lines[1] == (
        "3f2a91c0  send_mail  dead_letter  3 min ago  permanent: the mail server refused…"
    )


WORDS = st.text("ab日\N{COMBINING ACUTE ACCENT} ", max_size=60)


@given(st.lists(st.tuples(WORDS, WORDS, st.integers(), WORDS), min_size=1), st.integers(8, 130))
def test_no_line_is_wider_than_the_terminal(
    rows: list[tuple[str, str, int, str]], width: int
) -> None:
    for is_flat in (True, False):
        lines = lay_out(("NAME", "TYPE", "COUNT", "NOTE"), rows, width, is_flat=is_flat)
        assert max(line.cell_len for line in lines) <= width
        assert not is_flat or len(lines) == len(rows) + 1


@pytest.mark.parametrize("width", range(1, 8))
def test_a_terminal_of_a_few_columns_is_no_error(width: int) -> None:
    assert texts([row(note=MESSAGE)], width)


def test_nobodys_text_begins_a_line() -> None:
    """A name may have spaces; broken there, its rest would look like a line of ours."""
    lines = lay_out(("QUEUE", "NOTE"), [["a error: all is well", "b error: all is well"]], 14)
    assert not [line for line in lines[1:] if line.plain.startswith("error")]


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_words_stay_whole(width: int) -> None:
    lines = texts([row(note=MESSAGE)], width)
    assert " ".join(" ".join(lines).split()).endswith(MESSAGE)
