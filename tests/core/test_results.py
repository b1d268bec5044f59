"""What a handler reads of the jobs for which its own has waited."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.core.flows.dependents import results_of
from fencepost.core.job.job import Body, Dependency, Encoding
from fencepost.core.job.lifecycle import State
from fencepost.core.job.task import Isolation, Task
from fencepost.core.values.signature import Signature
from fencepost.errors import EncryptionError


def task(type: str, kind: Any) -> Task:
    def handler() -> Any: ...

    handler.__annotations__ = {"return": kind}
    return Task(
        type=type,
        function=handler,
        signature=Signature(handler, int),
        isolation=Isolation.THREAD,
    )


def dependency(job_id: str, data: bytes | None, **fields: Any) -> Dependency:
    body = None if data is None else Body(data)
    return Dependency(
        **{"job_id": job_id, "type": "t", "state": State.COMPLETED, "result": body} | fields
    )


def test_results_come_in_order_by_name_or_by_id() -> None:
    found = results_of([dependency("2", b"2", node="b"), dependency("1", b"1")], {})
    assert list(found.items()) == [("b", 2), ("1", 1)]


def test_a_result_is_read_as_the_annotation_of_its_task_says() -> None:
    given = [dependency("1", b"[1, 2]")]
    assert results_of(given, {"t": task("t", set[int])}) == {"1": {1, 2}}
    assert results_of(given, {"t": task("t", dict[str, int])}) == {"1": [1, 2]}, "or as it is"
    assert results_of(given, {}) == {"1": [1, 2]}


def test_only_what_completed_has_a_result() -> None:
    given = [dependency(state, None, state=state) for state in State]
    assert results_of(given, {}) == {"completed": None}


def test_a_name_that_two_flows_use_stands_for_the_first() -> None:
    given = [dependency("1", b"1", node="a"), dependency("2", b"2", node="a")]
    assert results_of(given, {}) == {"a": 1, "2": 2}


def test_a_result_may_be_binary() -> None:
    given = [dependency("1", None, result=Body(b"\xff", Encoding.BINARY))]
    assert results_of(given, {"t": task("t", bytes)}) == {"1": b"\xff"}


def test_a_result_that_nobody_could_decrypt_says_so() -> None:
    given = [dependency("1", None, result=Body(b"\xff", Encoding.ENCRYPTED))]
    with pytest.raises(EncryptionError):
        results_of(given, {"t": task("t", int)})
