"""Mutants of the Redis store: of its scripts, and of what decides and commits around them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store.redis"
LUA = f"{STORE}.scripts/*.lua"
RACES = "tests/store/redis/test_races.py"
ANSWERS = "tests/store/redis/test_lost_answers.py"
LETTERS = "tests/store/redis/test_letters.py"
CLOCK = "tests/store/redis/test_clock.py"
MEMORY = "tests/store/redis/test_remembering.py"
LINES = "tests/store/redis/test_lines.py"
SLEEPERS = "tests/store/redis/test_sleepers.py"
FAILOVER = "tests/store/redis/test_failover.py"


def _mutant(name: str, about: str, patches: tuple[Patch, ...], *tests: str) -> Mutant:
    return Mutant(f"redis-{name}", about, Place.REDIS, patches, tests)


def _lua(name: str, about: str, old: str, new: str, *tests: str) -> Mutant:
    return _mutant(name, about, (Patch(LUA, old, new),), *tests)


def _python(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    return _mutant(name, about, (Patch(f"{STORE}.{module}", old, new),), *tests)


LEASES = (
    _python(
        "token-is-not-compared",
        "a write is accepted under whatever lease the job has",
        "jobs.lease",
        "        and kept.lease.token == claim\n",
        "",
        "TestZombies",
        "TestFencing",
    ),
    _mutant(
        "lease-lives-at-its-expiry",
        "`<=` for `<`: a write is accepted at the instant at which its lease ends",
        (
            Patch(f"{STORE}.jobs.lease", "now < kept.lease", "now <= kept.lease"),
            Patch(LUA, "now >= request.deadline", "now > request.deadline"),
        ),
        "TestZombies",
        "TestLeases",
    ),
    _mutant(
        "heartbeat-revives",
        "a heartbeat extends a lease that has run out",
        (
            Patch(
                f"{STORE}.jobs.lease",
                "is_valid(kept, write.job_id, claim, unit.now)",
                "is_valid(kept, write.job_id, claim, 0)",
            ),
            Patch(f"{STORE}.jobs.lease", "            unit.rely_on(kept.lease)\n", ""),
        ),
        "TestLeases",
        "TestZombies",
    ),
    _python(
        "stale-checkpoint-is-kept",
        "a worker that lost its lease to another can still save",
        "jobs.lease",
        "if kept is None or not is_valid(kept, write.job_id, claim, unit.now):",
        "if kept is None or kept.lease is None:",
        "TestZombies",
        "TestSaving",
    ),
    _lua(
        "commit-does-not-look-at-the-clock",
        "a lease that ends between the read and the commit still writes",
        "if request.deadline and now",
        "if false and now",
        RACES,
    ),
    _lua(
        "commit-does-not-compare-revisions",
        "of two changes that began from the same document, the first is lost",
        "return string.match(found, '^%d+') == expected",
        "return true",
        RACES,
        "TestRacingDependencies",
    ),
    _lua(
        "commit-does-not-compare-values",
        "a lease or a field that was changed since is overwritten",
        "    return found == expected\n",
        "    return true\n",
        RACES,
        "TestRacingKeys",
    ),
    _python(
        "commit-does-not-see-a-new-lease",
        "a job that was claimed since it was read is changed as if it waited",
        "documents.unit",
        "                commit.check(ABSENT, leases, number)\n",
        "                pass\n",
        RACES,
    ),
    _lua(
        "version-goes-back",
        "the version of a lease is the time, and goes back with the clock",
        "whole(math.max(last + 1, now))",
        "whole(now)",
        "tests/store/redis/test_fence.py",
    ),
    _lua(
        "version-only-counts",
        "a claim that a server has forgotten has the version of the next",
        "whole(math.max(last + 1, now))",
        "whole(last + 1)",
        "tests/store/redis/test_fence.py",
    ),
    _python(
        "client-has-the-clock",
        "leases are given and judged by the clock of the caller",
        "jobs.catalog",
        "is_real = isinstance(self.clock, SystemClock)",
        "is_real = False",
        CLOCK,
    ),
    _python(
        "settlement-is-not-remembered",
        "a settlement whose answer was lost is refused when it is repeated",
        "jobs.finish",
        "        document.settled_token = token\n        unit.put_body",
        "        unit.put_body",
        "TestRepeating",
        ANSWERS,
    ),
    _python(
        "recovery-is-not-counted",
        "a job that kills its worker is recovered for ever",
        "jobs.finish",
        "        document.attempt = lease.attempt\n",
        "        document.attempt = lease.attempt - (token is None)\n",
        "TestRecovering",
    ),
    _lua(
        "recovers-a-moment-late",
        "`<` for `<=`: what is due now is not due yet",
        "return moment and tonumber(moment) <= now",
        "return moment and tonumber(moment) < now",
        "TestRecovering",
        "TestPromoting",
        "TestClaiming",
    ),
)

REMEMBERED = (
    _lua(
        "belief-about-the-time-is-not-checked",
        "a settlement without a read is written with a time that is not",
        "if request.believed and math.abs(now - request.believed) > 1000000 then",
        "if false then",
        MEMORY,
    ),
    _python(
        "commit-from-memory-does-not-compare-revisions",
        "a settlement without a read overwrites what happened to its job since the claim",
        "documents.unit",
        "            commit.check(REVISED, jobs, number, revision_of(kept.read))\n",
        "            if kept.before is None:\n"
        "                commit.check(REVISED, jobs, number, revision_of(kept.read))\n",
        MEMORY,
    ),
    _python(
        "refusal-is-given-from-memory",
        "a lease of another process is refused without a look, for one of the batch is known here",
        "jobs.lease",
        "    if now is not None and all(\n",
        "    if now is not None and any(\n",
        MEMORY,
    ),
    _python(
        "ends-in-two-queues-share-a-place",
        "jobs of two queues that end together are counted in one of them",
        "documents.commit",
        "            document.queue,\n",
        "",
        MEMORY,
    ),
    _python(
        "ends-at-two-times-share-a-place",
        "jobs that ended at different times and change together have ended at one time",
        "documents.commit",
        "            document.created_at + document.completed_in,\n",
        "",
        MEMORY,
    ),
    _python(
        "batch-is-taken-for-alike",
        "all jobs of a batch are stored as its first one, but for ids and payloads",
        "jobs.plain",
        "if mould is None or mould.alike != alike:",
        "if mould is None:",
        "tests/store/redis/test_batches.py",
    ),
    _python(
        "blocked-loop-has-to-turn",
        "what a loop posts before it blocks is written only after it",
        "store",
        "        self._here.is_blocked = True\n",
        "",
        "tests/store/redis/test_blocking.py",
    ),
)

CLAIMS = (
    _lua(
        "pause-of-a-queue-is-ignored",
        "jobs of a paused queue are claimed",
        "not paused['queue\\n' .. queue] and ",
        "",
        "TestPausing",
    ),
    _lua(
        "pause-of-a-type-is-ignored",
        "jobs of a paused type are claimed",
        " and not paused['type\\n' .. type] then",
        " then",
        "TestPausing",
    ),
    _lua(
        "limit-of-a-queue-is-ignored",
        "more jobs of a queue run than may",
        "    rooms[name] = left\n",
        "",
        "TestLimits",
    ),
    _lua(
        "limit-of-the-app-is-ignored",
        "more jobs run than may",
        "    room = math.min(room, left)\n",
        "",
        "TestLimits",
    ),
    _lua(
        "limit-counts-leases-that-ran-out",
        "a worker that died holds a place until it is recovered",
        "leases, '(' .. whole(now), '+inf')",
        "leases, '-inf', '+inf')",
        "TestLimits",
    ),
    _lua(
        "rate-is-ignored",
        "a type starts as often as it likes",
        "left = math.max(count - used, 0)",
        "left = count",
        "TestRates",
    ),
    _lua(
        "starts-are-not-noted",
        "a rate holds within one claim only",
        "if budget and budget.taken > 0 then",
        "if false then",
        "TestRates",
    ),
    _lua(
        "priority-is-ignored",
        "the lanes of a queue are claimed in the order of their names",
        "return one.priority < other.priority end)",
        "return one.name > other.name end)",
        "TestOrdering",
    ),
    _mutant(
        "claim-is-not-taken-off-the-line",
        "a claimed job stays in line, and is claimed again",
        (
            Patch(LUA, "      write('LTRIM', lane.line, lane.trimmed, -1)\n", ""),
            Patch(LUA, "  if not text or lease then\n", "  if not text then\n"),
        ),
        "TestClaiming",
        "TestFencing",
    ),
    _lua(
        "entry-counts-though-its-job-runs",
        "a job that stands in line twice is claimed again while it runs",
        "  if not text or lease then\n",
        "  if not text then\n",
        LINES,
    ),
    _lua(
        "entry-counts-whatever-its-document-says",
        "a job that was cancelled in the middle of a line is claimed",
        "  return own == standing and created + due == at\n",
        "  return own ~= nil\n",
        LINES,
        "TestCancelling",
    ),
    _lua(
        "entry-of-an-older-time-counts",
        "a job that was put off is claimed where it stood before",
        "  return own == standing and created + due == at\n",
        "  return own == standing\n",
        LINES,
        "TestEditing",
    ),
    _python(
        "entry-that-no-longer-counts-is-ahead",
        "a job is said to wait behind others that have left the line",
        "documents.lines",
        "            if (own.lane, own.run_at) == (each.lane, each.at):\n",
        "            if own.run_at is not None:\n",
        "TestSituations",
    ),
    _python(
        "entry-that-no-longer-counts-is-the-oldest",
        "a queue is said to wait since a job was due that has ended",
        "documents.lines",
        "        if found and found[0] not in standing:\n",
        "        if not found:\n",
        "TestViews",
    ),
    _lua(
        "line-is-out-of-order",
        "a job that is due before the last of its line is put behind it",
        "    if not last or own > last then\n",
        "    if true then\n",
        LINES,
        "TestOrdering",
    ),
    _lua(
        "claim-does-not-count",
        "the counts have a claimed job where it was",
        "write('HINCRBY', prefix .. 'counts', request.running .. '\\n' .. counted, count)",
        "write('HINCRBY', prefix .. 'counts', waiting, count)",
        "TestViews",
        "TestClaiming",
        "TestFinding",
    ),
)

INDEXES = (
    _python(
        "index-keeps-what-has-left",
        "a job stays in the indexes of the state that it has left",
        "documents.commit",
        "                self._drops[key] += numbers\n",
        "                pass\n",
        "TestPromoting",
        "TestDeadLetters",
        "TestClaiming",
    ),
    _python(
        "index-keeps-the-old-time",
        "a job whose due time is edited becomes due at the old one",
        "documents.commit",
        "if before.sorted.get(key) != score:",
        "if key not in before.sorted:",
        "TestEditing",
        "TestLeases",
    ),
    _python(
        "lifetime-has-no-index",
        "a job that is committed never outlives its lifetime",
        "documents.commit",
        "if after.lifetime is not None and after.lifetime != before.lifetime:",
        "if after.lifetime is None:",
        "TestExpiring",
        LINES,
    ),
    _lua(
        "lifetime-of-a-plain-job-has-no-index",
        "a job that is stored by one call never outlives its lifetime",
        "  write('ZADD', prefix .. 'lifetimes', 'LT', whole(ends), whole(block))\n",
        "",
        LINES,
    ),
    _lua(
        "block-is-never-corrected",
        "blocks whose jobs have long ended are looked at again and again, before any other",
        "function special.AGE(block, ended)\n",
        "function special.AGE(block, ended)\n  do return end\n",
        LINES,
    ),
    _lua(
        "block-forgets-its-later-jobs",
        "when the first job of a block has lived its time, the others live for ever",
        "  if first then\n    write('ZADD', prefix .. 'lifetimes', whole(first), block)",
        "  if false then\n    write('ZADD', prefix .. 'lifetimes', whole(first), block)",
        LINES,
        "TestExpiring",
    ),
    _python(
        "tag-has-no-index",
        "a search by a tag finds nothing",
        "documents.places",
        '            put[env.key("tag", name, value)] = seq\n',
        "            pass\n",
        "TestFinding",
    ),
    _python(
        "counts-only-grow",
        "a job that leaves a state is still counted in it",
        "documents.commit",
        "            self._counted[at] -= len(jobs)\n",
        "            pass\n",
        "TestViews",
        "TestFinding",
    ),
    _python(
        "commit-is-written-partly",
        "what is not a document is left out: attempts, edges, heartbeats of workers",
        "documents.unit",
        "commands = [*self._commands, *self._changes()]",
        "commands = [*self._changes()]",
        "TestAttempts",
        "TestDependencies",
        "TestWorkers",
    ),
    _python(
        "dead-letter-is-not-on-the-stream",
        "the stream of a type misses its dead letters",
        "documents.commit",
        "        if is_dead is not was_dead:\n",
        "        if was_dead and not is_dead:\n",
        LETTERS,
    ),
    _python(
        "dead-letter-stays-on-the-stream",
        "a dead letter that was replayed is still on the stream",
        "documents.commit",
        "        if is_dead is not was_dead:\n",
        "        if is_dead and not was_dead:\n",
        LETTERS,
    ),
    _python(
        "numbers-are-never-closed",
        "a job that is submitted while old ones are pruned is found by nobody",
        "jobs.upkeep",
        "    yield from at_once(close_numbers(env, upto))\n",
        "",
        RACES,
    ),
    _lua(
        "reserved-number-is-used-late",
        "a job is stored under a number that readers have passed by",
        "return tonumber(found or 0) < expected",
        "return true",
        RACES,
    ),
    _lua(
        "plain-job-has-a-closed-number",
        "a job is stored under a number that a server gives again, and readers have passed by",
        "if tonumber(redis.call('HGET', prefix .. 'closed', 'seq') or 0) > last - #jobs then",
        "if false then",
        FAILOVER,
    ),
    _lua(
        "plain-job-replaces-another",
        "a job is stored under a number that a server gives again, and another job has",
        "if has_any(prefix .. 'job', numbers) then",
        "if false then",
        FAILOVER,
    ),
)

KEYS = (
    _python(
        "key-is-released-early",
        "the key of a running job is free",
        "jobs.enqueue",
        "is_live = not kept.state.is_terminal",
        "is_live = kept.lease is None and not kept.state.is_terminal",
        "TestKeys",
        "TestKeyedArrivals",
    ),
    _python(
        "key-has-no-window",
        "a key is free as soon as its job has ended, whatever its window",
        "jobs.enqueue",
        'ends = "" if document.key_window is None else str(unit.now + document.key_window)',
        'ends = ""',
        "TestKeys",
    ),
    _python(
        "pruning-takes-the-key-of-a-job-that-is-kept",
        "a job that is kept for its dependents has lost its key",
        "jobs.upkeep",
        "    if document.children:\n",
        "    if document.children and document.key is not None:\n"
        "        own = field(document.type, document.key)\n"
        '        yield from unit.field(unit.env.key("keys"), own)\n'
        '        unit.set_field(unit.env.key("keys"), own, None)\n'
        "    if document.children:\n",
        "TestPruning",
    ),
    _python(
        "ended-token-holds-its-id",
        "a token is dropped, or refused, since another had its id that is forgotten by now",
        "records.access",
        " and own_name not in past:",
        ":",
        "TestTokens",
    ),
    _python(
        "slot-is-given-twice",
        "one more job of a concurrency key is let in than may run",
        "limits.concurrency",
        "if self._occupied + place >= limit_of(kept.policy):",
        "if self._occupied + place > limit_of(kept.policy):",
        "TestConcurrencyKeys",
    ),
    _python(
        "slot-is-not-passed-on",
        "nobody gets the slot of a job that has ended",
        "flows.dependents",
        "    admitted = yield from admit(unit, freed)\n",
        "    admitted: tuple[Moved, ...] = ()\n",
        "TestConcurrencyKeys",
    ),
)

FLOWS = (
    _python(
        "dependents-wait-for-ever",
        "the last parent that ends lets nobody go",
        "flows.dependents",
        "unblocked = [seq for seq, count in missing.items() if count == MET]",
        "unblocked: list[int] = []",
        "TestDependencies",
    ),
    _python(
        "dependents-wait-for-one",
        "the first of several parents that ends lets a job go",
        "flows.dependents",
        "if count == MET]",
        "if count >= MET]",
        "TestDependencies",
    ),
    _python(
        "dependents-are-let-go-again",
        "a job that has ended is let go by a parent that ends later",
        "flows.dependents",
        "if seq in found and found[seq].state is State.PENDING and found[seq].missing > 0",
        "if seq in found",
        "TestDependencies",
        "TestReopenedDependencies",
        "TestRacingDependencies",
    ),
    _python(
        "failure-does-not-follow",
        "the dependents of those that a failure has ended are left waiting",
        "flows.dependents",
        "        ended = [jobs[seq] for seq in failing]\n",
        "        ended = []\n",
        "TestDependencies",
    ),
    _python(
        "callback-is-not-stored",
        "nobody is told that a job has ended",
        "flows.dependents",
        "        if document.callback_url is None:\n            continue\n",
        "        if document.callback_url != '':\n            continue\n",
        "TestCallbacks",
    ),
)

ENGINE = (
    _python(
        "wake-up-is-not-published",
        "an idle worker of another process hears of new jobs when it polls",
        "store",
        "        news = self._notifier.commands(topics)\n",
        "        news: list[list[bytes]] = []\n",
        "TestWaking",
        "tests/store/redis/test_waking.py",
    ),
    _lua(
        "idle-worker-is-not-noted",
        "a worker that found nothing is not woken by the next job",
        "    write('HSET', prefix .. 'sleepers', request.listener, request.terms)\n",
        "",
        SLEEPERS,
    ),
    _lua(
        "wake-up-is-spent-on-one-that-is-gone",
        "the note of a process that was killed takes the wake-up of one that waits",
        "if type(heard) == 'number' and heard > 0 then",
        "if true then",
        SLEEPERS,
    ),
    _lua(
        "every-idle-worker-is-woken",
        "a hundred idle workers ask for one job",
        "        count = count - 1\n",
        "",
        SLEEPERS,
    ),
    _lua(
        "wake-up-goes-to-another-queue",
        "a job wakes a worker that cannot run it, and not one that can",
        "  return has(wanted.queues, queue) and has(wanted.types, type_)\n",
        "  return true\n",
        SLEEPERS,
    ),
    _python(
        "wake-up-fails-what-was-done",
        "a claim is said to have failed because others could not be told what it ended",
        "store",
        "with suppress(StoreError):  # it is done; a listener that is not woken polls",
        "if True:",
        ANSWERS,
    ),
    _python(
        "refusal-is-called-unknown",
        "a submission to a store that was moved is said to have perhaps been done",
        "store",
        'statement.sql != "read" and answer not in NOTHING',
        'statement.sql != "read" and answer != 0',
        "TestAcceptance",
    ),
    _python(
        "claim-that-was-made-is-called-undone",
        "a claim after which the server dies is said not to have happened",
        "store",
        "return UnknownOutcomeError(str(error)) if self._has_written else error",
        "return error",
        ANSWERS,
    ),
    _python(
        "outage-is-the-fault-of-a-chore",
        "a server that dies during a recovery has leases wait long after it is back",
        "jobs.claim",
        "        except (StoreUnavailableError, UnknownOutcomeError):\n",
        "        except ZeroDivisionError:\n",
        ANSWERS,
    ),
    _python(
        "stale-commit-is-taken-for-done",
        "a commit that was refused because something has changed counts as made",
        "documents.commit",
        "    if answer == 0:\n        raise StaleError\n",
        "",
        RACES,
        "TestRacingKeys",
    ),
    _lua(
        "moved-store-takes-jobs",
        "a store that was moved away accepts jobs that nobody will run",
        "    if redis.call('EXISTS', key) == 1 then\n      return -1\n",
        "    if redis.call('EXISTS', key) == 2 then\n      return -1\n",
        "TestAcceptance",
    ),
    _lua(
        "moved-store-takes-plain-jobs",
        "a store that was moved away accepts jobs that one call stores",
        "if redis.call('EXISTS', prefix .. 'refusing') == 1 then",
        "if false then",
        "TestAcceptance",
    ),
    _lua(
        "lanes-have-no-end",
        "of two that open lanes at once, both may, though there is room for one",
        "if redis.call('HLEN', key) >= expected then",
        "if false then",
        RACES,
    ),
    _python(
        "letter-that-left-its-list-is-shown",
        "a job that was retried while the list is read is shown as a dead letter",
        "jobs.read",
        "        if kept is not None and kept.document.is_dead_letter:\n",
        "        if kept is not None:\n",
        LETTERS,
    ),
    _python(
        "settlement-forgets-its-policy",
        "a stored policy is not written with the job that has it",
        "documents.unit",
        "        if self._policies:\n",
        "        if not self._policies:\n",
        "TestEnqueueing",
        "TestClaiming",
        "TestSettling",
    ),
)

MUTANTS = (*LEASES, *REMEMBERED, *CLAIMS, *INDEXES, *KEYS, *FLOWS, *ENGINE)
