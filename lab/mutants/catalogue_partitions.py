"""Mutants of the outbox, by which partitions of a Redis store tell each other what happened."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

FOLDER = "fencepost.store.redis.partitions"
OUTBOX = "tests/store/redis/partitions/test_outbox.py"
DEATHS = "tests/lab/test_outbox.py"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patch = Patch(f"{FOLDER}.{module}", old, new)
    return Mutant(f"redis-{name}", about, Place.REDIS, (patch,), tests)


MUTANTS = (
    _mutant(
        "report-is-lost-with-its-mirror",
        "a report that comes before its mirror is deleted, and the job waits for ever",
        "delivery",
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
        "outbox",
        "        if applied is not None:\n            return None\n",
        "",
        OUTBOX,
        DEATHS,
    ),
    _mutant(
        "mirror-ends-twice",
        "a report that is delivered twice lets go of a job that waits for two",
        "mirrors",
        "    return mirror.is_forced or mirror.version > kept.document.lease_version\n",
        "    kept.set_state(State.PENDING)\n    return True\n",
        OUTBOX,
    ),
    _mutant(
        "mirror-goes-back",
        "what was known earlier opens a mirror again that has ended, and nobody tells it",
        "mirrors",
        "    return mirror.is_forced or mirror.version > kept.document.lease_version\n",
        "    return True\n",
        OUTBOX,
    ),
    _mutant(
        "report-comes-after",
        "a job is stored before anyone is asked to report the end of what it waits for",
        "submit",
        "        yield from subscribe(self._hub, [(self._known[at[0]][0], *at) for at in live])\n",
        "",
        OUTBOX,
        DEATHS,
    ),
    _mutant(
        "commit-has-no-end",
        "a job may be stored when nobody reports to it any more",
        "mirrors",
        "        if self.now >= deadline:\n",
        "        if self.now < 0:\n",
        OUTBOX,
    ),
    _mutant(
        "report-forgets-that-it-runs-again",
        "a mirror of a job that runs again is told without a report of the next end",
        "control",
        "    yield from subscribe(hub, [(number, job_id, name, target) "
        "for name, target in targets])\n",
        "",
        OUTBOX,
        DEATHS,
    ),
    _mutant(
        "marks-are-forgotten-at-once",
        "a partition forgets what it has stored while someone may still bring it",
        "outbox",
        "        elif at is not None and int(at) + ORPHAN_US <= now:\n",
        "        elif at is not None:\n",
        OUTBOX,
    ),
)
