"""Requirements that call for words: the documentation says them, and what it says is so.

A sentence that a requirement calls for is followed by an HTML comment with its number, which
readers do not see. The comment only marks the place. What is checked is what a reader sees
there, and wherever the product can be asked, that it does what the sentence says.
"""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from tests.documentation import DOCS, blocks, pages, table_rows

from fencepost import App, Context, PermanentError, Priority, Retry, TemporaryError, Timeouts
from fencepost.core.bounds import LEASE_TTL_DEFAULT, POLL_INTERVAL, WORKER_LEASE_TTL_DEFAULT
from fencepost.core.job.failure import classify
from fencepost.core.job.job import Category, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed
from fencepost.core.values.times import parse_duration
from fencepost.store.interface.queue import Beat, ClaimRequest, LeaseLost
from fencepost.store.memory.store import MemoryStore
from fencepost.testing.clock import FakeClock
from fencepost.worker.run.heartbeater import BEATS_PER_TTL

# What a reader has to find there: each of these, in any order, whatever else is said.
WORDS: dict[str, tuple[str, ...]] = {
    "S0-6": (r"memory://", r"tests? only", r"empty after every start"),
    "S0-8": (r"bound to some queues gets jobs of no other", r"between queues no order"),
    "S0-13": (r"not exactly once", r"handler's effect", r"once only"),
    "S0-14": (r"partition", r"timeout", r"run twice"),
    "S0-15": (r"handlers must be idempotent", r"again must do no harm"),
    "S0-16": (r"no strict order across retries", r"overtake", r"tried again"),
    "S0-17": (r"more urgent job skips ahead",),
    "S0-18": (r"no order across workers", r"out of the order in which they were enqueued"),
    "S0-19": (r"not instantly claimable", r"a little later", r"share commits"),
    "S0-57": (r"leases may end", r"partition", r"at least once still holds"),
    "S0-70": (r"failed attempt is tried again", r"how long"),
    "S0-76": (
        r"shorter TTL recovers .* sooner",
        r"costs more heartbeats",
        r"longer TTL is cheaper",
    ),
    "S0-88": (r"several workers may process one job",),
    "S1-32": (r"BULK", r"must not impact other work"),
    "S1-35": (r"when the levels above it .* are empty", r"before that, nothing is promised"),
    "S1-74": (r"delivery is guaranteed", r"may repeat", r"the application's part"),
    "S1-79": (r"same transaction as the effect", r"constraint"),
    "S1-86": (
        *(r"network timeout", r"503", r"rate limit", r"briefly unavailable", r"deadlock"),
        r"says nothing counts as temporary",
    ),
    "S1-55": (r"asked at every failure", r"sampled=True"),
    "S1-87": (
        *(r"invalid payload", r"entity that does not exist", r"permission", r"business rule"),
        *(r"400", r"validation", r"type that no worker knows", r"waits", r"report"),
    ),
    "S1-95": (r"retention", r"permissions"),
    "S1-110": (r"`cancelled`", r"queues", r"limits on running jobs", r"events"),
    "S1-109": (r"every end of the job, at least once", r"same transaction as the end"),
    "S2-37": (r"must be idempotent, or guarded by a key",),
    "S3-3": (r"should do no harm when it is called again",),
    "S3-16": (r"send_idempotent",),
}
MARK = re.compile(r"<!--((?: S\d-\d+,?)+) -->")
NUMBER = re.compile(r"S\d-\d+")


def passages(text: str) -> dict[str, str]:
    """Return what a reader sees before each mark: from the mark before it, or the block's start.

    A block is a paragraph, an item of a list, or a row of a table.
    """
    found: dict[str, str] = {}
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*|] ?)", text):
        start = 0
        for mark in MARK.finditer(block):
            visible = " ".join(re.sub(r"<!--.*?-->", "", block[start : mark.start()]).split())
            for number in NUMBER.findall(mark[1]):
                found[number] = (
                    found.get(number, "") + " " + re.sub(r"\*\*|\[|\]\([^)]*\)", "", visible)
                )
            start = mark.end()
    return found


def section(page: str, heading: str) -> str:
    """Return what stands under the first heading that begins so, up to the next of its level."""
    text = (DOCS / page).read_text(encoding="utf-8")
    match = re.search(rf"^(#+) {re.escape(heading)}.*?$(.*?)(?=^\1 |\Z)", text, re.M | re.S)
    assert match, f"{page} has no heading {heading!r}"
    return match[2]


def seconds(text: str) -> float:
    return parse_duration(re.sub(r"^within |in$|\s", "", text))


PASSAGES: dict[str, str] = {}
for each in pages():
    for number, passage in passages(each.read_text(encoding="utf-8")).items():
        PASSAGES[number] = PASSAGES.get(number, "") + passage


@pytest.mark.parametrize("number", WORDS)
def test_a_reader_finds_what_a_requirement_calls_for(number: str) -> None:
    assert number in PASSAGES, f"no page marks where it says what {number} calls for"
    missing = [words for words in WORDS[number] if not re.search(words, PASSAGES[number], re.I)]
    assert missing == [], f"{number} is marked at: {PASSAGES[number]}"


def test_every_mark_is_one_whose_words_are_checked() -> None:
    assert set(PASSAGES) == set(WORDS)


def test_a_mark_without_its_sentence_is_noticed() -> None:
    text = "- One. <!-- S0-1 --> Two\n  more. <!-- S0-2, S0-3 -->\n- <!-- S0-4 -->\n\n<!-- S0-5 -->"
    assert passages(text) == {
        "S0-1": " - One.",
        "S0-2": " Two more.",
        "S0-3": " Two more.",
        "S0-4": " -",
        "S0-5": " ",
    }


# What the product does.


async def test_a_memory_store_is_empty_after_every_start() -> None:
    """S0-6."""
    with App("memory://") as app:
        app.submit_many([NewJob(type="t")])
        assert app.jobs.count() == 1
    with App("memory://") as again:
        assert again.jobs.count() == 0


def test_a_job_is_processed_twice_after_a_partition_and_lost_never() -> None:
    """S0-13, S0-14, S0-57, S0-88, S1-74: two workers have it, and only one of them may say so."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    [job_id] = [reply.job_id for reply in store.run(store.queue.enqueue([NewJob(type="t")]))]
    starts = []
    for worker in ("cut off", "next"):
        [job] = store.run(
            store.queue.claim(ClaimRequest(worker=worker, limit=1, lease_ttl=30.0))
        ).jobs
        starts.append(job)
        if worker == "cut off":
            clock.advance(30)
            store.run(store.upkeep.recover(1))
            clock.advance(1)
    assert [job.id for job in starts] == [job_id, job_id]
    beats = [Beat(job.id, job.lease.token, 30.0) for job in starts]
    lost, _ = store.run(store.queue.heartbeat(beats))
    assert lost == LeaseLost(job_id, State.RUNNING)


def test_an_idle_worker_looks_again_as_often_as_is_said() -> None:
    """S0-19: within a second, if a wake-up was lost."""
    assert re.search(r"looks again within a second", PASSAGES["S0-19"])
    assert POLL_INTERVAL <= 1.0


def test_the_retry_policy_has_its_defaults_examples_and_configuration() -> None:
    """S0-70: and the defaults are those of the product."""
    text = (DOCS / "retry-policy.md").read_text(encoding="utf-8")
    told = {row[0].strip("`"): row[1].strip("`") for row in table_rows(text, "setting")}
    retry = Retry()
    assert int(told["max_attempts"]) == retry.max_attempts
    assert int(told["max_retries"]) == retry.max_attempts - 1
    assert seconds(told["initial_delay"]) == retry.backoff.delay(1, Random(0))
    grown = retry.backoff.delay(2, Random(0)) / retry.backoff.delay(1, Random(0))
    assert float(told["multiplier"]) == grown
    assert seconds(told["max_delay"]) == retry.backoff.delay(500, Random(0))
    assert (told["on_timeout"], told["on_system"]) == (str(retry.on_timeout), str(retry.on_system))
    assert any(block.is_run and "Retry(" in block.source for block in blocks(text))
    for way in ("App(retry=", "@app.task(retry=", "task.using(retry="):
        assert way in text


def test_the_table_of_the_trade_off_is_of_this_product() -> None:
    """S0-76: heartbeats and recovery by TTL, and whose default each is."""
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    rows = table_rows(text, "TTL")
    for ttl, beat, recovery, _ in rows:
        assert seconds(beat) == pytest.approx(seconds(ttl) / BEATS_PER_TTL, abs=0.05)
        assert seconds(recovery) == seconds(ttl)
    default = {seconds(row[0]): row[3] for row in rows}
    assert "default of workers" in default[WORKER_LEASE_TTL_DEFAULT]
    assert "default of a claimer" in default[LEASE_TTL_DEFAULT]


@pytest.mark.parametrize(
    ("priority", "words"),
    [
        (Priority.CRITICAL, "system"),
        (Priority.HIGH, "user-facing"),
        (Priority.NORMAL, "standard work; the default"),
        (Priority.LOW, "wait indefinitely"),
        (Priority.BULK, "must not impact other work"),
    ],
)
def test_each_priority_says_what_it_is_for(priority: Priority, words: str) -> None:
    """S1-32: and the default is the one that says so."""
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    [row] = [row for row in table_rows(text, "number") if row[1].strip("`") == priority.name]
    assert words in row[2]
    assert ("the default" in row[2]) == (NewJob(type="t").priority is priority)


@pytest.mark.parametrize(
    "recipe",
    ["Recipe 1: a unique constraint", "Recipe 2: a lock on the key", "Recipe 3: a version check"],
)
def test_each_recipe_is_a_program_that_runs(recipe: str) -> None:
    """S1-79: the programs of all pages are run by themselves; these are among them."""
    programs = [block for block in blocks(section("idempotency.md", recipe)) if block.is_run]
    assert len(programs) == 1
    words = {"1": "primary key|unique", "2": "lock", "3": "version"}
    number = recipe.split()[1].rstrip(":")
    assert re.search(words[number], programs[0].source)
    assert "assert " in programs[0].source, "it shows that the effect happens once"


@pytest.mark.parametrize(
    "error",
    [
        *(TimeoutError("read"), ConnectionResetError("peer"), OSError("unavailable")),
        *(
            RuntimeError("says nothing"),
            TemporaryError("503"),
            TemporaryError("429", retry_after=9),
        ),
    ],
    ids=repr,
)
def test_what_is_called_temporary_is_treated_so(error: Exception) -> None:
    """S1-86."""
    outcome = classify(error)
    assert isinstance(outcome, Failed)
    assert outcome.failure.category is Category.TEMPORARY


def test_what_is_called_permanent_is_treated_so() -> None:
    """S1-87: at once, without a retry."""
    with App("memory://") as app:

        @app.task
        def refuse() -> None:
            raise PermanentError("no such user", code="missing")

        job = refuse.submit()
        unknown = app.submit_many([NewJob(type="nobody_knows")])[0]
        app.worker().run(until_idle=True)
        found = job.refresh()
        assert (found.state, found.attempt) == (State.FAILED, 1)
        waits = unknown.refresh()
        assert (waits.state, waits.attempt) == (State.SCHEDULED, 0)
        assert [reason.code for reason in unknown.why()] != []


async def test_payloads_and_results_are_in_no_log_line(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """S1-95: at any level, of a success, a failure, a timeout and an undecodable payload."""
    for advice in ("reference", "encrypt", "debug level"):
        assert advice in section("configuration.md", "Logging")
    secret, answer = "s3cr3t-payload", "s3cr3t-result"
    retry = Retry(max_attempts=2, initial_delay=0.01)
    with (
        caplog.at_level(logging.DEBUG),
        App(f"sqlite:///{tmp_path}/jobs.db", retry=retry, timeouts=Timeouts(execution=0.2)) as app,
    ):

        @app.task
        async def work(ctx: Context, text: str, how: str) -> str:
            if how == "fail":
                raise ValueError("refused")
            if how == "stay":
                await asyncio.sleep(60)
            return answer

        for how in ("succeed", "fail", "stay"):
            work.submit(secret, how)
        work.using(key="k").submit(secret, "succeed")
        await asyncio.wait_for(app.worker().aio.run(until_idle=True), 60)
        assert app.jobs.count() == app.jobs.count(type="work") == 4
    logged = [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    assert any("attempt" in line for line in logged)
    assert not [line for line in logged if secret in line or answer in line]


def test_the_extensions_are_all_that_is_beyond_the_model() -> None:
    """S1-110: every state that the model does not have is named as an extension."""
    model = {"pending", "scheduled", "delayed", "running", "retrying", "completed", "failed"}
    beyond = {state.value for state in State} - model - {"dead_letter"}
    assert beyond == set(re.findall(r"the state `(\w+)`", PASSAGES["S1-110"]))


def test_a_lease_of_the_trade_off_ends_when_it_says() -> None:
    """S0-76: a shorter TTL recovers sooner."""
    recovered = {}
    for ttl in (5.0, 30.0):
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        store.run(store.queue.enqueue([NewJob(type="t")]))
        store.run(store.queue.claim(ClaimRequest(worker="dead", limit=1, lease_ttl=ttl)))
        start = clock.now()
        while not store.run(store.upkeep.recover(1)):
            clock.advance(1)
        recovered[ttl] = clock.now() - start
    assert recovered == {5.0: timedelta(seconds=5), 30.0: timedelta(seconds=30)}
