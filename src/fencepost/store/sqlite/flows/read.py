"""Looking along dependencies: what a job waits for, and who waits for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fencepost.core.job.job import Dependency
from fencepost.core.values.ids import id_text, wanted_ids
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.sql.codes import BY_NUMBER
from fencepost.store.sqlite.engine.values import values
from fencepost.store.sqlite.jobs.catalog import Env
from fencepost.store.sqlite.jobs.rows import decode_body

DEPENDENCIES = """
select child.id, parent.id, parent.lane, parent.state, parent.node, {result}
from jobs as child
cross join dependencies on dependencies.child = child.seq
cross join jobs as parent on parent.seq = dependencies.parent
where child.id in ({{values}}) order by child.seq, dependencies.place
"""
WITH_RESULTS = DEPENDENCIES.format(result="parent.result, parent.result_encoding")
WITHOUT_RESULTS = DEPENDENCIES.format(result="null, null")
DEPENDENTS = """
select parent.id, child.id
from jobs as parent
cross join dependencies on dependencies.parent = parent.seq
cross join jobs as child on child.seq = dependencies.child
where parent.id in ({values}) order by child.seq
"""


def dependencies(
    env: Env, job_ids: Sequence[str], *, with_results: bool = False
) -> Plan[list[list[Dependency]]]:
    """Return what each job waits for or waited for, in order."""
    rows = yield from _look(WITH_RESULTS if with_results else WITHOUT_RESULTS, job_ids)
    lanes = yield from env.catalog.lanes({row[2] for row in rows})
    found: defaultdict[str, list[Dependency]] = defaultdict(list)
    for child, parent, lane, number, node, *result in rows:
        found[id_text(child)].append(
            Dependency(
                job_id=id_text(parent),
                type=lanes[lane].type,
                state=BY_NUMBER[number],
                node=node,
                result=decode_body(*result),
            )
        )
    return [found.get(job_id.lower(), []) for job_id in job_ids]


def dependents(env: Env, job_ids: Sequence[str]) -> Plan[list[list[str]]]:
    """Return who waits for each job or waited for it, oldest first."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for parent, child in (yield from _look(DEPENDENTS, job_ids)):
        found[id_text(parent)].append(id_text(child))
    return [found.get(job_id.lower(), []) for job_id in job_ids]


def _look(template: str, job_ids: Sequence[str]) -> Plan[list[Row]]:
    rows: list[Row] = []
    for sql, params in values(template, [(id_,) for id_ in wanted_ids(job_ids)]):
        rows += yield Statement(sql, params)
    return rows
