"""The worker in JavaScript: what it does at each answer, shown by a server that follows a script.

Every check also runs against workers with a planted defect, of which it must find one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.examples.scripted import Answer, Scripted, granted, scripted, stale

FOLDER = Path(__file__).parent.parent.parent / "examples" / "node-worker"
WORKER = FOLDER / "worker.mjs"
PATIENCE = 20.0
SHORT = 4.0
"""Seconds in which a worker with a defect may show what it should."""

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

HANDLERS = """
import { writeSync } from "node:fs";
import { PermanentError, work } from "./worker.mjs";

const say = (word) => writeSync(1, `${word}\\n`);
const forever = (_, ctx) =>
  new Promise((_, reject) => {
    say("started");
    const end = () => (say("aborted"), reject(ctx.signal.reason));
    ctx.signal.addEventListener("abort", end);
  });
await work({
  test: async (payload) => (say("ran"), payload.result),
  forever,
  stubborn: () => (say("started"), new Promise(() => {})),
  fail: async ({ permanent, code, retryAfter }) => {
    const error = permanent ? new PermanentError("no") : new Error("not yet");
    throw Object.assign(error, { code, retryAfter });
  },
  nothing: async () => { throw undefined; },
  sync: () => { throw new Error("at once"); },
  keep: async (_, ctx) => {
    await ctx.checkpoint((ctx.lastCheckpoint ?? 0) + 1);
    await ctx.progress(0.5, "half");
    return "kept";
  },
  big: async () => 12n,
});
"""


@dataclass
class Bench:
    """A worker at a scripted server."""

    script: Scripted
    folder: Path
    patience: float = PATIENCE
    child: subprocess.Popen[str] = field(init=False)

    def start(self, **settings: Any) -> None:
        """Start the worker, with one slot and short polls unless told otherwise."""
        (self.folder / "handlers.mjs").write_text(HANDLERS)
        given = {"concurrency": 1, "poll": 1, "grace": 30, "worker": "w1", **settings}
        environment = {f"FENCEPOST_{name.upper()}": str(value) for name, value in given.items()}
        self.child = subprocess.Popen(
            ["node", "handlers.mjs"],
            cwd=self.folder,
            env={**os.environ, "FENCEPOST_SERVER": self.script.url, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait(self, is_so: Callable[[], Any]) -> Any:
        return self.script.wait(is_so, self.patience)

    def said(self) -> str:
        """Return the next word of a handler."""
        assert self.child.stdout is not None
        return self.child.stdout.readline().strip()

    def wait_for_claims(self, count: int = 2) -> None:
        """Return when so many more claims were made: what came before is over."""
        wanted = self.script.count("claims") + count
        self.wait(lambda: self.script.count("claims") >= wanted)

    def wait_for_end(self) -> int:
        try:
            return self.child.wait(self.patience)
        except subprocess.TimeoutExpired:
            raise AssertionError("the worker has not ended") from None

    def close(self) -> None:
        if hasattr(self, "child"):
            self.child.kill()
            self.child.communicate()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    shutil.copy(WORKER, tmp_path)
    with scripted() as script:
        made = Bench(script, tmp_path)
        yield made
        made.close()


def lease(job: dict[str, Any]) -> dict[str, Any]:
    return {"id": job["id"], "token": job["lease"]["token"]}


def test_it_is_short_enough_to_be_read() -> None:
    lines = WORKER.read_text().splitlines()
    assert len(lines) < 150
    assert max(map(len, lines)) <= 100


# What is written.


def check_results(bench: Bench) -> None:
    first = bench.script.give(payload={"result": {"n": 1}})
    second = bench.script.give(payload={"result": [2]})
    bench.start(concurrency=2, token="secret", queues="mail,bulk", lease_ttl=20)
    acks = bench.wait(lambda: bench.script.writes("ack")[1:] and bench.script.writes("ack"))
    assert acks == [{**lease(first), "result": {"n": 1}}, {**lease(second), "result": [2]}]
    assert bench.script.count("ack") == 1, "both ended in one turn"
    claim = bench.script.asked[0][1]
    assert (claim["limit"], claim["lease_ttl"], claim["worker"]) == (2, 20, "w1")
    assert claim["queues"] == ["mail", "bulk"]
    assert "forever" in claim["types"]


def check_failures(bench: Bench) -> None:
    bench.script.give(type="fail", payload={"retryAfter": 7})
    bench.script.give(type="fail", payload={"permanent": True, "code": 20})
    bench.script.give(type="nothing")
    bench.script.give(type="big")
    bench.start()
    nacks = bench.wait(lambda: bench.script.writes("nack")[3:] and bench.script.writes("nack"))
    told = [(each["category"], each["message"], each.get("code")) for each in nacks[:3]]
    assert told == [
        ("temporary", "not yet", None),
        ("permanent", "no", "20"),
        ("temporary", "undefined", None),
    ]
    assert nacks[0]["retry_after"] == 7
    assert nacks[0]["exception"] == "Error"
    assert "not yet" in nacks[0]["traceback"]
    assert "BigInt" in nacks[3]["message"], "a result that is no JSON fails its job alone"


def check_timeout(bench: Bench) -> None:
    job = bench.script.give(type="stubborn", timeout=0.05)
    bench.start()
    (nack,) = bench.wait(lambda: bench.script.writes("nack"))
    assert (nack["id"], nack["category"]) == (job["id"], "timeout")
    bench.wait_for_claims()


def check_checkpoints(bench: Bench) -> None:
    job = bench.script.give(type="keep", checkpoint=4, attempt=2)
    bench.start()
    bench.wait(lambda: bench.script.writes("ack"))
    assert bench.script.writes("checkpoint") == [{**lease(job), "checkpoint": 5}]
    assert bench.script.writes("progress") == [{**lease(job), "fraction": 0.5, "message": "half"}]


# Leases.


def check_heartbeats(bench: Bench) -> None:
    quick = bench.script.give(type="forever", lease_ttl=1.0)
    slow = bench.script.give(type="forever", lease_ttl=30.0)
    bench.start(concurrency=2)
    bench.wait(lambda: bench.script.count("heartbeat") >= 5)  # longer than the first claim lasts
    for _, body in [each for each in bench.script.asked if each[0] == "heartbeat"]:
        beats = [{**lease(quick), "lease_ttl": 1}, {**lease(slow), "lease_ttl": 30}]
        assert body["items"] == beats, "one request for all in hand"
    assert bench.said() == bench.said() == "started"
    assert bench.child.poll() is None


def check_lost(bench: Bench) -> None:
    """A lease that a heartbeat says is lost ends its handler, and nothing is written of the job."""
    bench.script.answers["heartbeat"] = stale
    job = bench.script.give(type="forever", lease_ttl=1.0)
    bench.start()
    bench.wait(lambda: bench.script.count("heartbeat"))
    bench.wait_for_claims()
    assert [bench.said(), bench.said()] == ["started", "aborted"]
    assert writes_of(bench, job) == {"heartbeat"}


def check_expired(bench: Bench) -> None:
    """A lease that nobody could extend has ended, whatever the server would say."""
    bench.script.answers["heartbeat"] = lambda _: None
    job = bench.script.give(type="forever", lease_ttl=1.0)
    bench.start()
    bench.wait(lambda: bench.script.count("heartbeat"))
    bench.wait_for_claims()
    assert [bench.said(), bench.said()] == ["started", "aborted"]
    assert writes_of(bench, job) == {"heartbeat"}


def check_stale_ack(bench: Bench) -> None:
    bench.script.answers["ack"] = stale
    bench.script.give()
    bench.start()
    bench.wait(lambda: bench.script.count("ack"))
    bench.wait_for_claims()
    assert bench.script.count("ack") == 1, "what is refused by 409 is not tried again"
    assert bench.script.count("nack") == 0


def check_stale_nack(bench: Bench) -> None:
    """A handler that throws before it has begun to wait is a failure like any other."""
    bench.script.answers["nack"] = stale
    bench.script.give(type="sync")
    bench.start()
    bench.wait(lambda: bench.script.count("nack"))
    bench.wait_for_claims()
    assert bench.script.count("nack") == 1
    assert bench.child.poll() is None


def writes_of(bench: Bench, job: dict[str, Any]) -> set[str]:
    """Return what kinds of writes were made of a job."""
    kinds = {kind for kind, _ in bench.script.asked} - {"claims"}
    return {k for k in kinds if any(w["id"] == job["id"] for w in bench.script.writes(k))}


# Answers that do not come.


def check_repeats(bench: Bench) -> None:
    """A write that nobody answered for is made again, with the same token, until one does."""
    answers: list[Answer] = [None, (503, {}), (504, {}), (502, "a proxy's page"), None]
    bench.script.answers["ack"] = lambda body: answers.pop(0) if answers else granted(body)
    job = bench.script.give(payload={"result": 1})
    bench.start()
    bench.wait(lambda: bench.script.count("ack") == 6)
    assert bench.script.writes("ack") == [{**lease(job), "result": 1}] * 6
    bench.wait_for_claims()
    assert bench.script.count("ack") == 6


def check_retry_after(bench: Bench) -> None:
    times: list[float] = []

    def busy(_: Any) -> Answer:
        times.append(time.monotonic())
        return (429, {}, {"retry-after": "1"}) if len(times) == 1 else (200, {"jobs": []})

    bench.script.answers["claims"] = busy
    bench.start()
    bench.wait(lambda: len(times) > 1)
    assert times[1] - times[0] >= 0.7


def check_spoiled_batch(bench: Bench) -> None:
    """What is refused together is tried one by one: a bad result harms no other."""

    def picky(body: Any) -> Answer:
        if "items" not in body and body["result"] != "bad":
            return granted(body)
        return 422, {"status": 422, "detail": "not valid"}

    bench.script.answers["ack"] = picky
    good = bench.script.give(payload={"result": "good"})
    bad = bench.script.give(payload={"result": "bad"})
    bench.start(concurrency=2)
    (nack,) = bench.wait(lambda: bench.script.writes("nack"))
    assert (nack["id"], nack["category"]) == (bad["id"], "permanent")
    bench.wait_for_claims()
    assert [each["id"] for each in bench.script.writes("ack")].count(good["id"]) == 2


def check_refused_claim(bench: Bench) -> None:
    bench.script.answers["claims"] = lambda _: (403, {"status": 403, "detail": "not allowed"})
    bench.start()
    assert bench.wait_for_end() == 1
    assert bench.script.count("claims") == 1


# Stopping.


def check_stop(bench: Bench) -> None:
    """What runs may end within grace, and is given back then; nothing more is claimed."""
    job = bench.script.give(type="forever")
    bench.start(concurrency=2, grace=0.3)
    assert bench.said() == "started"
    bench.child.send_signal(signal.SIGTERM)
    assert bench.wait_for_end() == 0
    assert bench.script.writes("release") == [lease(job)]
    assert bench.said() == "aborted"
    assert writes_of(bench, job) == {"release"}


def check_busy_stop(bench: Bench) -> None:
    bench.script.give(type="forever")
    bench.start(grace=0.3)
    assert bench.said() == "started"
    bench.child.send_signal(signal.SIGTERM)
    assert bench.wait_for_end() == 0
    assert bench.script.count("claims") == 1, "a full hand claims nothing, nor one that is to stop"


def check_last_claim(bench: Bench) -> None:
    """Jobs that come with a claim that was under way at the stop are given back unrun."""

    def at_last(_: Any) -> Answer:
        bench.child.send_signal(signal.SIGTERM)
        time.sleep(0.2)  # the signal is to be there before the answer
        return 200, {"jobs": [job]}

    job = bench.script.give()
    bench.script.answers["claims"] = at_last
    bench.start()
    assert bench.wait_for_end() == 0
    assert bench.script.writes("release") == [lease(job)]
    assert bench.said() == "", "it was not run"


def check_second_signal(bench: Bench) -> None:
    bench.script.give(type="forever")
    bench.start()
    assert bench.said() == "started"
    bench.child.send_signal(signal.SIGTERM)
    bench.wait(lambda: bench.child.poll() is None)
    time.sleep(0.1)  # two signals at once are one
    bench.child.send_signal(signal.SIGINT)
    assert bench.wait_for_end() == 1


CHECKS = {
    name.removeprefix("check_"): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_worker_keeps_to_the_protocol(bench: Bench, name: str) -> None:
    CHECKS[name](bench)


# Tests of these tests.

MUTANTS = {
    "acks with the old token for ever": (
        "stale_ack",
        "if (reply.status === 409) lose(held);",
        "if (reply.status === 409) continue;",
    ),
    "runs on after its lease is lost": (
        "lost",
        "held.end.abort(new LeaseLost());",
        "true;",
    ),
    "believes in a lease that nobody extended": (
        "expired",
        "if (now() >= held.endsAt) lose(held);",
        "",
    ),
    "gives up a write that had no answer": (
        "repeats",
        "else await backOff(reply, tries);",
        "else throw new LeaseLost();",
    ),
    "names no token": ("results", "token: held.job.lease.token", 'token: ""'),
    "sends no heartbeats": ("heartbeats", "if (!isDue) continue;", "continue;"),
    "never waits as long as it is told": ("retry_after", "(Number(wait) || ", "("),
    "knows no timeout": ("timeout", "() => end.abort(late)", "() => {}"),
    "counts what it gives back": ("stop", '? ["release"]', '? ["nack", {}]'),
    "runs what came with the last claim": (
        "last_claim",
        "if (isStopping) throw new Stopping();",
        "",
    ),
    "claims once more after it was told to stop": (
        "busy_stop",
        'await once(news, "free"); continue;',
        'await once(news, "free");',
    ),
    "heeds no second signal": ("second_signal", "if (isStopping) process.exit(1);", ""),
    "forgets checkpoints": ("checkpoints", '"checkpoint", { checkpoint }', '"checkpoint", {}'),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_worker_with_a_defect_is_found_out(bench: Bench, name: str) -> None:
    check, old, new = MUTANTS[name]
    text = WORKER.read_text()
    assert text.count(old) == 1, "the worker has changed: plant this defect again"
    (bench.folder / "worker.mjs").write_text(text.replace(old, new))
    bench.patience = SHORT
    with pytest.raises(AssertionError):
        CHECKS[check](bench)


def test_large_integers_are_exact_as_the_readme_says(tmp_path: Path) -> None:
    """S0: JSON numbers beyond 2 ** 53 pass through a worker unharmed, if it is told how."""
    text = (FOLDER / "README.md").read_text()
    block = text.partition("```js exact\n")[2].partition("```")[0]
    assert block
    number = 12345678901234567890123
    program = f"""{block}
    const value = decode('{{"n":{number},"m":7,"f":1.5,"s":"{number}"}}');
    console.log(encode({{...value, kind: typeof value.n, small: typeof value.m}}));
    """
    (tmp_path / "exact.mjs").write_text(program)
    shown = subprocess.run(
        ["node", "--harmony-json-parse-with-source", "exact.mjs"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    found = json.loads(shown)
    assert found == {
        "n": number,
        "m": 7,
        "f": 1.5,
        "s": str(number),
        "kind": "bigint",
        "small": "number",
    }
