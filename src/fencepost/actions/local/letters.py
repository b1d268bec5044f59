"""Dead letters in groups of the same failure, and what needs attention."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from fencepost.actions.backend import Script
from fencepost.actions.local.queues import paused_by
from fencepost.actions.local.series import read_lines, read_span
from fencepost.core.bounds import LETTERS_GROUPED_MAX, PAGE_MAX
from fencepost.core.encryption import readable
from fencepost.core.filter import PageRequest
from fencepost.core.fingerprints import LetterMark, grouped, mark_of
from fencepost.core.stats import attention
from fencepost.core.stats.attention import Item, Paused
from fencepost.core.stats.lines import SeriesMetric, choice
from fencepost.core.stats.overview import Finding, QueueView, WorkerInfo

if TYPE_CHECKING:
    from fencepost.actions.session import Session
    from fencepost.store.interface.reader import DeadLetterPage

WAIT_WINDOW, WAIT_STEP = 3_600.0, 300.0
"""The usual wait is that of the last hour."""


class LetterMarks(msgspec.Struct, frozen=True):
    """What is kept of the newest dead letters, to group them."""

    marks: list[LetterMark]
    is_complete: bool
    """False if there are more."""


def read_marks(session: Session, queues: Collection[str] | None) -> Script[LetterMarks]:
    """Return marks of the newest dead letters (in *queues*), page by page."""
    among = None if queues is None else sorted(queues)
    marks: list[LetterMark] = []
    position: int | None = None
    while len(marks) < LETTERS_GROUPED_MAX:
        page: DeadLetterPage = yield session.store.reader.dead_letters(
            None, PageRequest(PAGE_MAX, position), among
        )
        marks += [mark_of(readable(letter)) for letter in page.letters]
        position = page.next
        if position is None:
            break
    return LetterMarks(marks, position is None)


def needs_attention(
    session: Session,
    marks: Collection[LetterMark],
    findings: Collection[Finding],
    queues: Collection[str] | None,
) -> Script[list[Item]]:
    """Return what needs attention; with *queues*, only what concerns these."""
    store, now = session.store, session.clock.now()
    among = None if queues is None else sorted(queues)
    views: list[QueueView] = yield store.overview.queues(among)
    workers: list[WorkerInfo] = yield store.cluster.workers()
    known = yield from _pausers(session, views)
    span = read_span(session, WAIT_WINDOW, WAIT_STEP)
    chosen = choice(
        "queue", queue=None, type=None, within=None if queues is None else frozenset(queues)
    )
    waits = yield from read_lines(session, span, [SeriesMetric.WAIT_P99], chosen, is_named=True)
    whole = queues is None
    return attention.ordered(
        [
            *attention.rising(grouped(marks, now), now),
            *attention.unserved(views, workers),
            *(attention.orphaned(findings) if whole else ()),
            *attention.slow(waits, span.start, float(span.step)),
            *(attention.silent(workers, now) if whole else ()),
            *attention.paused(views, known, now),
            *(attention.found(findings) if whole else ()),
        ]
    )


def _pausers(session: Session, views: Collection[QueueView]) -> Script[dict[str, Paused]]:
    """Return who paused the queues that are paused, as far as the audit log says."""
    found = yield from paused_by(
        session, [("queue", view.name) for view in views if view.is_paused]
    )
    return {each.name: Paused(each.by, each.at) for each in found if each.by and each.at}
