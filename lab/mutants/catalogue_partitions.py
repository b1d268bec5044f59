"""Mutants of the outbox, by which partitions of a Redis store tell each other what happened."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

FOLDER = "fencepost.store.redis.partitions"
OUTBOX = "tests/store/redis/partitions/test_outbox.py"
DEATHS = "tests/lab/test_outbox.py"
CONFORMANCE = "tests/store/redis/partitions/test_conformance.py"
QUOTAS = "tests/store/redis/partitions/test_quotas.py"
PARTITIONS = "tests/store/redis/partitions/test_partitions.py"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patch = Patch(f"{FOLDER}.{module}", old, new)
    return Mutant(f"redis-{name}", about, Place.REDIS, (patch,), tests)


MUTANTS = (
    _mutant(
        "keeps-a-lost-reply-to-itself",
        "a claim does not say that a partition has not answered: what that has leased runs out",
        "leases",
        "            is_unsure=bool(self.errors),\n",
        "",
        PARTITIONS,
    ),
    _mutant(
        "finds-leases-in-all-or-none",
        "while a partition is away, nothing is found that dead workers held in the others",
        "leases",
        "    if errors and len(errors) == len(asked):\n",
        "    if errors:\n",
        PARTITIONS,
    ),
    _mutant(
        "claims-from-a-partition-that-is-behind",
        "jobs of a partition that was away start against limits declared meanwhile",
        "leases",
        "    current = [number for number in requests if number not in hub.behind]\n",
        "    current = list(requests)\n    hub.behind.clear()\n",
        PARTITIONS,
    ),
    _mutant(
        "report-is-lost-with-its-mirror",
        "a report that comes before its mirror is deleted, and the job waits for ever",
        "outbox.delivery",
        "    return report.id in applied.missing and not entry.is_orphan\n",
        "    return False\n",
        OUTBOX,
    ),
    _mutant(
        "intent-is-deleted-first",
        "an intent is deleted before its parts are stored: who dies between loses jobs",
        "submit",
        "            stored = yield from store_parts(self._hub, source, intent_id, parts, times)\n"
        "            yield from self._hub.ask(source, WRITE, delete_by_id, [intent_id])\n",
        "            yield from self._hub.ask(source, WRITE, delete_by_id, [intent_id])\n"
        "            stored = yield from store_parts(self._hub, source, intent_id, parts, times)\n",
        DEATHS,
    ),
    _mutant(
        "intent-is-stored-twice",
        "a partition does not look whether it has stored its part before",
        "outbox.entries",
        "        if applied is not None:\n            return None\n",
        "",
        OUTBOX,
        DEATHS,
    ),
    _mutant(
        "mirror-ends-twice",
        "a report that is delivered twice lets go of a job that waits for two",
        "outbox.mirrors",
        "    return mirror.is_forced or mirror.version > kept.document.lease_version\n",
        "    kept.set_state(State.PENDING)\n    return True\n",
        OUTBOX,
    ),
    _mutant(
        "mirror-goes-back",
        "what was known earlier opens a mirror again that has ended, and nobody tells it",
        "outbox.mirrors",
        "    return mirror.is_forced or mirror.version > kept.document.lease_version\n",
        "    return True\n",
        OUTBOX,
    ),
    _mutant(
        "report-comes-after",
        "a job is stored before anyone is asked to report the end of what it waits for",
        "submit",
        "            self._hub, [(self._known[at[0]][0], Wanted(*at)) for at in live]\n",
        "            self._hub, []\n",
        OUTBOX,
        DEATHS,
    ),
    _mutant(
        "commit-has-no-end",
        "a job may be stored when nobody reports to it any more",
        "outbox.mirrors",
        "        if self.now >= deadline:\n",
        "        if self.now < 0:\n",
        OUTBOX,
    ),
    _mutant(
        "report-forgets-that-it-runs-again",
        "a mirror of a job that runs again is told without a report of the next end",
        "outbox.news",
        "    yield from accept(unit, reports, atomic=False)\n",
        "",
        OUTBOX,
        DEATHS,
    ),
    _mutant(
        "batch-forgets-its-own-keys",
        "of two jobs of one batch with a key that asks to be refused, one is stored",
        "submit",
        "        found = dict(sorted({**rivals(self._jobs, self.ids, found), **found}.items()))\n",
        "",
        f"{CONFORMANCE}::TestKeys",
    ),
    _mutant(
        "mirror-is-as-urgent-as-submitted",
        "a priority that is inherited is not inherited in the next partition",
        "submit",
        "priority=new.priority, depth=new.depth)",
        "priority=job.priority, depth=new.depth)",
        f"{CONFORMANCE}::TestEditing",
    ),
    _mutant(
        "news-are-not-stored",
        "a job is run again or edited, and who dies before telling others has told nobody",
        "outbox.news",
        "    if changed:\n",
        "    if changed and unit.now < 0:\n",
        OUTBOX,
        DEATHS,
    ),
    _mutant(
        "news-are-deleted-first",
        "news are delivered once, and a job that was being stored then never hears of it",
        "outbox.entries",
        "is_last=age >= NEWS_US",
        "is_last=True",
        OUTBOX,
    ),
    _mutant(
        "spawn-is-not-gathered-elsewhere",
        "what gathers does not wait for what is spawned into other partitions",
        "spawn",
        "    followed = yield from gather_spawned(unit, kept, [*spawned, *known.values()])\n",
        "    followed = yield from gather_spawned(unit, kept, [*spawned])\n",
        OUTBOX,
        DEATHS,
    ),
    _mutant(
        "stale-spawn-goes-elsewhere",
        "jobs for other partitions are accepted without the lease of the job that spawns them",
        "spawn",
        "    if kept is None:\n"
        "        (lost,) = yield from with_states(unit, [LeaseLost(spawn.job_id)])\n"
        "        return _Accepted(lost)\n",
        "    if kept is None:\n"
        "        yield from store_plain(unit, [intent_job(others)] if others else [])\n"
        "        yield from unit.commit()\n"
        "        return _Accepted(LeaseLost(spawn.job_id))\n",
        OUTBOX,
    ),
    _mutant(
        "spawn-forgets-its-keys",
        "a later attempt does not look for what an earlier one has spawned elsewhere",
        "spawn",
        "    held = yield from _held(hub, jobs, numbers, number)\n",
        "    held: dict[int, Duplicate] = {}\n",
        OUTBOX,
    ),
    _mutant(
        "quota-is-raised-late",
        "a partition takes a quota that was taken back before it came",
        "quotas",
        "    if int((yield from unit.field(key, NUMBER)) or 0) >= number:\n        return False\n",
        "    yield from unit.field(key, NUMBER)\n",
        QUOTAS,
    ),
    _mutant(
        "quota-forgets-what-runs",
        "a partition gives its whole quota away while its jobs run",
        "quotas",
        "    return {each: levels[each].bound for each in lowered}\n",
        "    return {each: levels[each].quota for each in lowered}\n",
        QUOTAS,
    ),
    _mutant(
        "limit-takes-effect-never",
        "a limit whose setter died lets no job start",
        "quotas",
        "            yield from _open(hub, known.number)\n            continue\n",
        "            return []\n",
        QUOTAS,
        DEATHS,
    ),
    _mutant(
        "room-is-lost-with-its-taker",
        "who dies before a partition knows of its room takes that room along",
        "quotas",
        "        if each.quota > quotas[place] or each.bound < known.bounds.get(place, 0)\n",
        "        if each.quota > quotas[place]\n",
        QUOTAS,
    ),
    _mutant(
        "marks-are-forgotten-at-once",
        "a partition forgets what it has stored while someone may still bring it",
        "outbox.entries",
        "        elif at is not None and int(at) + ORPHAN_US <= now:\n",
        "        elif at is not None:\n",
        OUTBOX,
    ),
)
