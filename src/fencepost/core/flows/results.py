"""What the jobs that another waited for have returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from fencepost.core.job.job import Dependency
from fencepost.core.job.lifecycle import State
from fencepost.core.job.task import Task
from fencepost.core.values.payload import NULL, decode_result


def results_of(dependencies: Iterable[Dependency], tasks: Mapping[str, Task]) -> Mapping[str, Any]:
    """Return the results of those that completed, in order, by their names in the flow or ids.

    Each is read as the annotation of its task says, or as plain JSON if it is none of *tasks*.
    """
    results: dict[str, Any] = {}
    for each in dependencies:
        if each.state is not State.COMPLETED:
            continue
        task = tasks.get(each.type)
        kind = Any if task is None else task.signature.return_type
        # Jobs of two flows may have the same name there.
        name = each.job_id if each.node is None or each.node in results else each.node
        results[name] = decode_result(each.result or NULL, kind)
    return MappingProxyType(results)
