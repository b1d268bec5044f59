"""Notes that a caller's transaction leaves on jobs, for the next claim to look at."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.store.plan import Plan, Statement

NOTE = "insert into fencepost.unsure(seq, has_ended) select x, %s from unnest(%s::bigint[]) as x"
# Only of jobs for which others wait; who comes to wait in another transaction of a caller's leaves
# a note too. Above read committed an old snapshot does not show who came to wait since.
NOTE_ENDED = """
insert into fencepost.unsure(seq, has_ended) select x, true from unnest(%s::bigint[]) as x
where current_setting('transaction_isolation') <> 'read committed'
  or exists (select 1 from fencepost.dependency where parent = x)
"""
TAKE = """
delete from fencepost.unsure where ctid = any (array(
  select ctid from fencepost.unsure limit %s for update skip locked)) returning seq, has_ended
"""


def note(seqs: Sequence[int], *, has_ended: bool) -> Plan[None]:
    """Leave a note on each job: that it has ended, or that it may wait for one that has."""
    if seqs:
        yield Statement(NOTE, (has_ended, list(seqs)))


def note_ended(seqs: Sequence[int]) -> Plan[None]:
    """Leave a note on each job that has ended and that others wait for."""
    yield Statement(NOTE_ENDED, (list(seqs),))


def take(limit: int) -> Plan[tuple[list[int], list[int]]]:
    """Take up to *limit* notes down; return the jobs that wait, and those that have ended."""
    rows = yield Statement(TAKE, (limit,))
    return [seq for seq, has_ended in rows if not has_ended], [seq for seq, is_ in rows if is_]
