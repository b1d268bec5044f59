"""The worker protocol where something breaks: a server as a process of its own, and plain HTTP."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.cli.conftest import command
from tests.cli.support import Command, end, wait_until
from tests.http.sockets import request

__all__ = ["command"]

TTL = 1.0
"""Seconds: the shortest lease that there is."""
SOON = {"retry": {"max_attempts": 3, "initial_delay": 0}}


class Peer:
    """A server, and a caller who may find it gone."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._child = self._start(0)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)

    def _start(self, port: int) -> subprocess.Popen[str]:
        before = len(self._command.log) if port else 0
        child = self._command.start("server", "--port", str(port))
        pattern = r"server on http://127\.0\.0\.1:(\d+)"
        found = wait_until(lambda: re.search(pattern, self._command.log[before:]), "a server")
        self.port = int(found[1])
        return child

    def restart(self) -> None:
        """Kill the server, and start another in its place."""
        end(self._child, signal.SIGKILL)
        self._child = self._start(self.port)

    def post(self, path: str, **body: Any) -> Any:
        response = self.client.post(f"/v1/{path}", json=body or None)
        response.raise_for_status()
        return response.json()

    def get(self, path: str) -> Any:
        return self.client.get(f"/v1/{path}").raise_for_status().json()

    def submit(self, **options: Any) -> str:
        return str(self.post("jobs", type="foreign", payload={}, **options)["id"])

    def claim(self, worker: str = "w1", **options: Any) -> list[Any]:
        body = {"worker": worker, "types": ["foreign"], "lease_ttl": TTL, **options}
        jobs: list[Any] = self.post("claims", **body)["jobs"]
        return jobs

    def write(self, kind: str, job: dict[str, Any], **fields: Any) -> httpx.Response:
        body = {"id": job["id"], "token": job["lease"]["token"], **fields}
        return self.client.post(f"/v1/leases/{kind}", json=body)

    def attempts(self, job_id: str) -> list[Any]:
        found: list[Any] = self.get(f"jobs/{job_id}/attempts")["attempts"]
        return found


@pytest.fixture
def peer(command: Command) -> Iterator[Peer]:
    made = Peer(command)
    with made.client:
        yield made


def answer(response: httpx.Response) -> tuple[int, str | None]:
    """Return the status, and the state or the code of the refusal."""
    body = response.json()
    return response.status_code, body.get("code") or body["state"]


def test_a_claim_whose_caller_has_hung_up_takes_nothing(peer: Peer) -> None:
    """Many hang up while they wait; the job that comes then is given to none of them."""
    body = {"worker": "ghost", "types": ["foreign"], "limit": 5, "timeout": 30, "lease_ttl": 60}
    for _ in range(8):
        ghost = socket.create_connection(("127.0.0.1", peer.port))
        ghost.sendall(request("POST", "/v1/claims", body))
        ghost.close()
    job_id = peer.submit()
    (job,) = peer.claim(timeout=20)  # a lease of a ghost would last for longer than that
    assert (job["id"], job["attempt"]) == (job_id, 1), "it is counted once"
    assert {each["outcome"] for each in peer.attempts(job_id)[:-1]} <= {"released"}


def test_a_claim_whose_answer_was_lost_is_recovered_and_counted(peer: Peer) -> None:
    """S0-49: nobody knows the token, so the lease runs out; the attempt was spent."""
    job_id = peer.submit(**SOON)
    peer.claim("lost")
    (job,) = peer.claim("other", timeout=20)
    assert (job["id"], job["attempt"]) == (job_id, 2)
    assert job["previous_attempt_id"] is not None
    assert peer.attempts(job_id)[0]["failure"]["code"] == "lease_expired"


def test_an_ack_whose_answer_was_lost_is_repeated_across_a_crash(peer: Peer) -> None:
    for _ in range(20):
        peer.submit()
    jobs = peer.claim(limit=20, lease_ttl=60)
    for job in jobs[:10]:
        assert peer.write("ack", job, result=1).json()["repeated"] is False
    peer.restart()
    replies = [peer.write("ack", job, result=2).json() for job in jobs]
    assert [each["repeated"] for each in replies] == [True] * 10 + [False] * 10
    assert {each["state"] for each in replies} == {"completed"}
    results = [peer.get(f"jobs/{job['id']}/result")["result"] for job in jobs]
    assert results == [1] * 10 + [2] * 10, "what was recorded first stays"


def test_an_ack_after_the_lease_changes_nothing(peer: Peer) -> None:
    """S0-78."""
    peer.submit(**SOON)
    (late,) = peer.claim("late")
    (job,) = peer.claim("next", timeout=20, lease_ttl=60)
    assert answer(peer.write("ack", late, result="late")) == (409, "stale_lease")
    assert answer(peer.write("checkpoint", late, checkpoint="late")) == (409, "stale_lease")
    assert answer(peer.write("ack", job, result="good")) == (200, "completed")
    assert answer(peer.write("ack", late, result="late")) == (409, "stale_lease")
    assert peer.get(f"jobs/{job['id']}/result")["result"] == "good"


def test_a_lease_that_ran_out_is_not_revived_though_nobody_took_the_job(peer: Peer) -> None:
    """C10."""
    job_id = peer.submit()
    (job,) = peer.claim()
    peer.post("types/foreign/pause")
    wait_until(lambda: peer.get(f"jobs/{job_id}")["state"] != "running", "the end of the lease")
    assert answer(peer.write("heartbeat", job, lease_ttl=60)) == (409, "stale_lease")
    assert answer(peer.write("ack", job)) == (409, "stale_lease")


def test_a_heartbeat_tells_that_a_job_was_cancelled(peer: Peer) -> None:
    kept, dropped = peer.submit(), peer.submit()
    jobs = peer.claim(limit=2, lease_ttl=60)
    peer.post(f"jobs/{dropped}/cancel")
    items = [{"id": job["id"], "token": job["lease"]["token"], "lease_ttl": 60} for job in jobs]
    replies = {each["id"]: each for each in peer.post("leases/heartbeat", items=items)["items"]}
    assert replies[kept]["status"] == 200
    assert (replies[dropped]["status"], replies[dropped]["state"]) == (409, "cancelled")


def test_failures_end_in_a_dead_letter_and_what_is_released_does_not_count(peer: Peer) -> None:
    """C23."""
    job_id = peer.submit(**SOON)
    states = []
    for _ in range(3):
        (job,) = peer.claim(timeout=20, lease_ttl=60)
        assert answer(peer.write("release", job)) == (200, "scheduled")
        (job,) = peer.claim(timeout=20, lease_ttl=60)
        states.append(answer(peer.write("nack", job, message="no", retry_after=0))[1])
    assert states == ["retrying", "retrying", "dead_letter"]
    assert [each["number"] for each in peer.attempts(job_id)] == [1, 1, 2, 2, 3, 3]
    assert peer.get("dead-letters")["dead_letters"][0]["job_id"] == job_id


def test_a_checkpoint_survives_the_crash_of_server_and_worker(peer: Peer) -> None:
    peer.submit(**SOON)
    (job,) = peer.claim("dies")
    exact = 10**20
    assert peer.write("checkpoint", job, checkpoint={"row": exact}).status_code == 200
    peer.restart()
    (job,) = peer.claim("next", timeout=20)
    assert (job["attempt"], job["checkpoint"]) == (2, {"row": exact})


def test_workers_that_claim_at_once_never_share_a_job(peer: Peer) -> None:
    """S0-48."""
    jobs = [{"type": "foreign", "payload": {"n": number}} for number in range(300)]
    stored = {each["id"] for each in peer.post("jobs/batch", jobs=jobs)["jobs"]}

    def take_all(name: str) -> list[str]:
        taken: list[str] = []
        while found := peer.claim(name, limit=7, lease_ttl=60):
            taken += [job["id"] for job in found]
        return taken

    with ThreadPoolExecutor(8) as pool:
        shares = list(pool.map(take_all, [f"w{number}" for number in range(8)]))
    taken = [job_id for share in shares for job_id in share]
    assert len(taken) == len(set(taken))
    assert set(taken) == stored


def test_a_server_that_is_told_to_stop_answers_the_claims_that_wait(command: Command) -> None:
    """Nobody is hung up on: a claim that was cut off could have taken jobs along."""
    peer = Peer(command)
    with peer.client, socket.create_connection(("127.0.0.1", peer.port), 30) as waiting:
        body = {"worker": "w", "types": ["foreign"], "timeout": 50}
        waiting.sendall(request("POST", "/v1/claims", body))
        wait_until(lambda: peer.get("workers")["workers"], "the claim")
        end(peer._child, signal.SIGTERM)
        head, _, sent = waiting.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(sent)["jobs"] == []
