"""Mutants of the Redis store: of its scripts, and of what decides and commits around them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store.redis"
LUA = f"{STORE}.scripts/*.lua"
RACES = "tests/store/redis/test_races.py"
ANSWERS = "tests/store/redis/test_lost_answers.py"
LETTERS = "tests/store/redis/test_letters.py"
CLOCK = "tests/store/redis/test_clock.py"


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
            Patch(LUA, "now >= tonumber(ARGV[2])", "now > tonumber(ARGV[2])"),
        ),
        "TestZombies",
        "TestLeases",
    ),
    _mutant(
        "heartbeat-revives",
        "a heartbeat extends a lease that has run out",
        (
            Patch(
                f"{STORE}.jobs.settle",
                "is_valid(kept, beat.job_id, claim, unit.now)",
                "is_valid(kept, beat.job_id, claim, 0)",
            ),
            Patch(f"{STORE}.jobs.settle", "            unit.rely_on(lease)\n", ""),
        ),
        "TestLeases",
        "TestZombies",
    ),
    _python(
        "stale-checkpoint-is-kept",
        "a worker that lost its lease to another can still save",
        "jobs.settle",
        "if kept is None or not is_valid(kept, item.job_id, claim, unit.now):",
        "if kept is None or kept.lease is None:",
        "TestZombies",
        "TestSaving",
    ),
    _lua(
        "commit-does-not-look-at-the-clock",
        "a lease that ends between the read and the commit still writes",
        "if ARGV[2] ~= '' and now",
        "if false and now",
        RACES,
    ),
    _lua(
        "commit-does-not-compare-revisions",
        "of two changes that began from the same document, the first is lost",
        "elseif string.match(found, '^%d+') ~= expected then",
        "elseif false then",
        RACES,
        "TestRacingDependencies",
    ),
    _lua(
        "commit-does-not-compare-values",
        "a lease or a field that was changed since is overwritten",
        "      if found ~= expected then\n",
        "      if false then\n",
        RACES,
        "TestRacingKeys",
    ),
    _python(
        "commit-does-not-see-a-new-lease",
        "a job that was claimed since it was read is changed as if it waited",
        "jobs.unit",
        '                yield [ABSENT, self.env.key("lease"), number, b""]\n',
        "                pass\n",
        RACES,
    ),
    _lua(
        "version-goes-back",
        "the version of a lease is the time, and goes back with the clock",
        "local version = math.max(last + 1, now)",
        "local version = now",
        "tests/store/redis/test_fence.py",
    ),
    _lua(
        "version-only-counts",
        "a claim that a server has forgotten has the version of the next",
        "local version = math.max(last + 1, now)",
        "local version = last + 1",
        "tests/store/redis/test_fence.py",
    ),
    _python(
        "client-has-the-clock",
        "leases are given and judged by the clock of whoever asks",
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
    _lua(
        "claim-is-not-taken-off-the-line",
        "a claimed job stays in line, and is claimed again",
        "    redis.call('ZREM', lane.key, job)\n",
        "",
        "TestClaiming",
        "TestFencing",
    ),
    _lua(
        "claim-does-not-count",
        "the counts have a claimed job where it was",
        "redis.call('HINCRBY', prefix .. 'counts', request.running .. '\\n' .. counted, count)",
        "redis.call('HINCRBY', prefix .. 'counts', waiting, count)",
        "TestViews",
        "TestClaiming",
        "TestFinding",
    ),
)

INDEXES = (
    _python(
        "index-keeps-what-has-left",
        "a job stays in the indexes of the state that it has left",
        "jobs.unit",
        "                drops[key].append(number)\n",
        "                pass\n",
        "TestPromoting",
        "TestDeadLetters",
        "TestClaiming",
    ),
    _python(
        "index-keeps-the-old-time",
        "a job whose due time is edited becomes due at the old one",
        "jobs.unit",
        "if before.sorted.get(key) != score:",
        "if key not in before.sorted:",
        "TestEditing",
        "TestLeases",
    ),
    _python(
        "lifetime-has-no-index",
        "no job ever outlives its lifetime",
        "jobs.unit",
        '        put[env.key("lifetimes")] = document.expires_at\n',
        "        pass\n",
        "TestExpiring",
    ),
    _python(
        "tag-has-no-index",
        "a search by a tag finds nothing",
        "jobs.unit",
        '        put[env.key("tag", name, value)] = seq\n',
        "        pass\n",
        "TestFinding",
    ),
    _python(
        "counts-only-grow",
        "a job that leaves a state is still counted in it",
        "jobs.unit",
        "            counted.subtract(before.counted)\n",
        "",
        "TestViews",
        "TestFinding",
    ),
    _python(
        "commit-is-written-partly",
        "what is not a document is left out: attempts, edges, heartbeats of workers",
        "jobs.unit",
        "commands = [*self._commands, *self._changes()]",
        "commands = [*self._changes()]",
        "TestAttempts",
        "TestDependencies",
        "TestWorkers",
    ),
    _python(
        "dead-letter-is-not-on-the-stream",
        "the stream of a type misses its dead letters",
        "jobs.unit",
        '        yield [b"BURY", self.env.key("letters"), number, stream, *flat]\n',
        "",
        LETTERS,
    ),
    _python(
        "dead-letter-stays-on-the-stream",
        "a dead letter that was replayed is still on the stream",
        "jobs.unit",
        '            yield [b"EXHUME", self.env.key("letters"), number, stream]\n',
        "",
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
        ">= tonumber(expected) then\n      return 0\n    end\n  elseif kind == 'room'",
        ">= math.huge then\n      return 0\n    end\n  elseif kind == 'room'",
        RACES,
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
        'return [b"", *flat(self._notifier.commands(topics))] if topics else []',
        "return []",
        "TestWaking",
        "tests/store/redis/test_waking.py",
    ),
    _mutant(
        "wake-up-fails-what-was-done",
        "a server that dies after the commit has the caller submit again",
        (
            Patch(
                f"{STORE}.store",
                "with suppress(StoreError):  # it is done, and listeners poll as well",
                "if True:",
            ),
        ),
        ANSWERS,
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
        "jobs.unit",
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
        "lanes-have-no-end",
        "of two that open lanes at once, both may, though there is room for one",
        "if redis.call('HLEN', key) >= tonumber(expected) then",
        "if false then",
        "tests/store/redis/test_races.py",
    ),
    _python(
        "settlement-forgets-its-policy",
        "a stored policy is not written with the job that has it",
        "jobs.unit",
        "        if self._policies:\n",
        "        if not self._policies:\n",
        "TestEnqueueing",
        "TestClaiming",
        "TestSettling",
    ),
)

MUTANTS = (*LEASES, *CLAIMS, *INDEXES, *KEYS, *FLOWS, *ENGINE)
