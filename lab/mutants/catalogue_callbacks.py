"""Mutants of webhooks, in every store: deliveries that are not stored, or twice, or are wrong."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

MEMORY = "fencepost.store.memory"
SQLITE = "fencepost.store.sqlite"
SQL = "fencepost.store.postgres.migrations/0001_initial.sql"


def _mutant(place: Place, name: str, about: str, *patches: Patch) -> Mutant:
    return Mutant(f"{place}-callback-{name}", about, place, patches, ("TestCallbacks",))


CANCELLED = "nobody is told of a job that is cancelled"
PROPAGATED = "nobody is told of a job that ends with one that it waited for"
REPLAYED = "a fresh job is given the address that is encrypted for the dead one"
TWICE = "a settlement that is repeated is told of again"
WRONG = "every end is told of as a success"

MUTANTS = (
    _mutant(
        Place.MEMORY,
        "of-the-dead-job",
        REPLAYED,
        Patch(
            f"{MEMORY}.jobs.enqueue",
            "request.callback_url or dead.callback_url",
            "dead.callback_url",
        ),
    ),
    _mutant(
        Place.SQLITE,
        "of-the-dead-job",
        REPLAYED,
        Patch(
            f"{SQLITE}.jobs.replay",
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
            "coalesce(given.callback_url, job.callback_url)",
            "job.callback_url",
        ),
    ),
    _mutant(
        Place.MEMORY,
        "not-on-cancel",
        CANCELLED,
        Patch(
            f"{MEMORY}.records.webhooks",
            "if ended.callback_url is None:",
            "if ended.callback_url is None or ended.state is State.CANCELLED:",
        ),
    ),
    _mutant(
        Place.MEMORY,
        "not-of-those-that-waited",
        PROPAGATED,
        Patch(
            f"{MEMORY}.records.webhooks",
            "if ended.callback_url is None:",
            "if ended.callback_url is None or (ended.failure and ended.failure.culprit):",
        ),
    ),
    _mutant(
        Place.MEMORY,
        "twice-for-a-repeat",
        TWICE,
        Patch(f"{MEMORY}.jobs.settle", "finish import apply\n", "finish import apply, call_back\n"),
        Patch(
            f"{MEMORY}.jobs.settle",
            "        return AlreadySettled(record.id, record.state)\n",
            "        call_back(jobs, record, now)\n"
            "        return AlreadySettled(record.id, record.state)\n",
        ),
    ),
    _mutant(
        Place.MEMORY,
        "tells-a-wrong-state",
        WRONG,
        Patch(f"{MEMORY}.records.webhooks", "state=ended.state,", "state=State.COMPLETED,"),
    ),
    _mutant(
        Place.SQLITE,
        "not-on-cancel",
        CANCELLED,
        Patch(
            f"{SQLITE}.records.webhooks",
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
            "    followed: list[Moved] = []\n    touched = list(left)\n",
            "    followed: list[Moved] = []\n    touched = list(left)\n    first = ended\n",
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
            "    followed = yield from end_all(env, list(accepted.values()), now, tally)\n",
            "    from fencepost.store.sqlite.records.webhooks import call_back\n"
            "    both = zip(settlements, replies, strict=True)\n"
            "    again = [one for one, reply in both if isinstance(reply, AlreadySettled)]\n"
            "    yield from call_back(env, [read_token(one.token).seq for one in again], now)\n"
            "    followed = yield from end_all(env, list(accepted.values()), now, tally)\n",
        ),
    ),
    _mutant(
        Place.SQLITE,
        "tells-a-wrong-state",
        WRONG,
        Patch(f"{SQLITE}.records.webhooks", "state=BY_NUMBER[number],", "state=State.COMPLETED,"),
    ),
    _mutant(
        Place.SQLITE,
        "again-for-a-duplicate",
        "a job that has ended is told of again when its key is submitted again",
        Patch(
            f"{SQLITE}.flows.enqueue",
            "if isinstance(each.reply, Enqueued) and each.reply.state.is_terminal",
            "if each.reply.state.is_terminal",
        ),
    ),
    _mutant(
        Place.SQLITE,
        "not-on-arrival",
        "nobody is told of a job that ends while it is loaded",
        Patch(
            f"{SQLITE}.records.load",
            "    yield from call_back(env, arrivals.ended, now)\n",
            "    yield from call_back(env, (), now)\n",
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
            "(array['completed', 'failed', 'dead_letter', 'cancelled'])[d.state - 4],\n"
            "          'ended_at'",
            "'completed',\n          'ended_at'",
        ),
    ),
)
