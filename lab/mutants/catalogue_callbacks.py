"""Mutants of webhooks, in every store: deliveries that are not stored, or twice, or are wrong."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

SQLITE = "fencepost.store.sqlite"
SQL = "fencepost.store.postgres.schema/*.sql"


def _mutant(place: Place, name: str, about: str, *patches: Patch) -> Mutant:
    return Mutant(f"{place}-callback-{name}", about, place, patches, ("TestCallbacks",))


CANCELLED = "no webhook is sent for a cancelled job"
PROPAGATED = "no webhook is sent for a job that ends with its dependency"
REPLAYED = "a fresh job is given the address that is encrypted for the dead one"
TWICE = "a repeated settlement sends its webhook again"
WRONG = "every end is reported as a success"

MUTANTS = (
    _mutant(
        Place.SQLITE,
        "of-the-dead-job",
        REPLAYED,
        Patch(
            f"{SQLITE}.jobs.control",
            "if request.callback_url is not None:",
            "if not request.job_id:",
        ),
    ),
    _mutant(
        Place.POSTGRES,
        "of-the-dead-job",
        REPLAYED,
        Patch(
            "fencepost.store.postgres.jobs.control",
            "coalesce(given.callback_url, j.callback_url)",
            "j.callback_url",
        ),
    ),
    _mutant(
        Place.SQLITE,
        "not-on-cancel",
        CANCELLED,
        Patch(
            f"{SQLITE}.jobs.enqueue",
            "where callback_url is not null and seq in",
            "where callback_url is not null and state <> 8 and seq in",
        ),
    ),
    _mutant(
        Place.SQLITE,
        "not-of-those-that-waited",
        PROPAGATED,
        Patch(
            f"{SQLITE}.flows.dependents",
            "    followed: list[Moved] = []\n    freed = list(left)\n",
            "    followed: list[Moved] = []\n    freed = list(left)\n    first = ended\n",
        ),
        Patch(
            f"{SQLITE}.flows.dependents",
            "        followed += yield from call_back(env, list(ended), now)\n",
            "        if ended is first:\n"
            "            followed += yield from call_back(env, list(ended), now)\n",
        ),
    ),
    _mutant(
        Place.SQLITE,
        "twice-for-a-repeat",
        TWICE,
        Patch(
            f"{SQLITE}.jobs.settle",
            "    followed = yield from end_all(env, list(accepted.values()), now, counters)\n",
            "    from fencepost.store.sqlite.jobs.enqueue import call_back\n"
            "    both = zip(settlements, replies, strict=True)\n"
            "    again = [one for one, reply in both if isinstance(reply, AlreadySettled)]\n"
            "    yield from call_back(env, [read_token(one.token).seq for one in again], now)\n"
            "    followed = yield from end_all(env, list(accepted.values()), now, counters)\n",
        ),
    ),
    _mutant(
        Place.SQLITE,
        "tells-a-wrong-state",
        WRONG,
        Patch(f"{SQLITE}.jobs.enqueue", "state=BY_NUMBER[number],", "state=State.COMPLETED,"),
    ),
    _mutant(
        Place.SQLITE,
        "again-for-a-duplicate",
        "a job that has ended sends its webhook again when its key is submitted again",
        Patch(
            f"{SQLITE}.flows.enqueue",
            "if isinstance(each.reply, Enqueued) and each.reply.state.is_terminal",
            "if each.reply.state.is_terminal",
        ),
    ),
    _mutant(
        Place.SQLITE,
        "not-on-arrival",
        "no webhook is sent for a job that ends while it is loaded",
        Patch(
            f"{SQLITE}.records.transfer",
            "    yield from link(edges)\n",
            "    yield from link(edges)\n"
            "    rows = ','.join(map(str, failing))\n"
            "    yield Statement(f'update jobs set callback_url = null where seq in ({rows})')\n",
        ),
    ),
    _mutant(
        Place.POSTGRES,
        "not-on-cancel",
        CANCELLED,
        Patch(
            SQL,
            "where c.seq = any (p_ended) order by c.seq",
            "where c.seq = any (p_ended) and d.state <> 8 order by c.seq",
        ),
    ),
    _mutant(
        Place.POSTGRES,
        "not-on-plain-cancel",
        CANCELLED,
        Patch(SQL, "and not exists (select 1 from fencepost.callbacks where seq = x)", ""),
    ),
    _mutant(
        Place.POSTGRES,
        "not-of-those-that-waited",
        PROPAGATED,
        Patch(
            SQL,
            "where c.seq = any (p_ended) order by c.seq",
            "where c.seq = any (p_ended)\n"
            "        and coalesce(position('dependency_failed' in d.failure::text), 0) = 0\n"
            "      order by c.seq",
        ),
    ),
    _mutant(
        Place.POSTGRES,
        "twice-for-a-repeat",
        TWICE,
        Patch(
            "fencepost.store.postgres.jobs.settle",
            "        replies = yield from _with_repeats(replies, fences)\n",
            "        replies = yield from _with_repeats(replies, fences)\n"
            "        both = zip(fences, replies, strict=True)\n"
            "        again = [one.seq for one, it in both if isinstance(it, AlreadySettled)]\n"
            '        sql = "select fencepost.call_back(%s, %s)::text"\n'
            "        yield Statement(sql, (env.now, again))\n",
        ),
    ),
    _mutant(
        Place.POSTGRES,
        "tells-a-wrong-state",
        WRONG,
        Patch(
            SQL,
            "(array['completed', 'failed', 'dead_letter', 'cancelled'])[d.state - :COMPLETED + 1],",
            "'completed',",
        ),
    ),
)
