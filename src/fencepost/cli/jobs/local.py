"""``fencepost jobs run ID --local``: run a stored job's handler here, and write nothing.

The job is read from its store. Then the app is put on an empty memory store, which is thrown away:
what the handler submits goes there. Its checkpoints, progress and spawned jobs are printed instead
of stored. Hooks and lifespan run as in a worker; timeouts and isolation do not, so that a debugger
can stop it.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Sequence
from contextvars import copy_context
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fencepost.cli.apps import find_app, point
from fencepost.cli.names import whole_id
from fencepost.cli.options import Settings
from fencepost.cli.output import clean_lines, echo, echo_json
from fencepost.core.display import amount, shown_url
from fencepost.core.encryption import REFUSED, TAMPERED, unreadable
from fencepost.core.flows.graph import Stage, arrange, side_by_side
from fencepost.core.job.failure import classify
from fencepost.core.job.job import Body, ClaimedJob, Dependency, Encoding, Job, Lease
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Snoozed, decide
from fencepost.core.values.payload import decode, encode_result
from fencepost.core.values.signature import UnreadPayload
from fencepost.errors import JobNotFoundError, TamperedError
from fencepost.observe.log import current_job
from fencepost.worker.run.batch import call_of
from fencepost.worker.run.context import AttemptState, Context, ContextActions, ContextScript
from fencepost.worker.run.hooks import call_hooked
from fencepost.worker.run.report import without_ours

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.task import Task


def run_local(settings: Settings, id: str, *, starts_debugger: bool) -> None:
    """Run the handler of a job and print its result, or what it raised and exit with 1."""
    app = find_app(settings.app_name, settings)
    settings.configure_logging()
    job, dependencies = _read(app, id)
    task = app.session.task(job.type)
    store = shown_url(settings.url)
    echo(f"running {job.type} {job.id} here; nothing is written to {store}", err=True)
    point(app, "memory://")
    try:
        # In a context of its own, or what is logged afterwards would belong to the job.
        result = copy_context().run(_call, app, task, _claimed(app, job), dependencies)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, click.ClickException)):
            raise
        _show_failure(settings, job, task, error, starts_debugger=starts_debugger)
        raise SystemExit(1) from None
    submitted = app.jobs.count()
    if submitted:
        echo(f"it submitted {amount(submitted, 'job')}: nothing of that is stored", err=True)
    if settings.as_json:
        echo_json({"id": job.id, "type": job.type, "outcome": "succeeded", "result": result})
    else:
        echo_json(result)


def _read(app: App, id: str) -> tuple[Job, Sequence[Dependency]]:
    """Return the job and the results that it waited for, from the store of *app*."""
    store = app.store
    (job,) = store.run(store.reader.get([whole_id(app, id)]))
    if job is None:
        raise JobNotFoundError(id)
    (dependencies,) = store.run(store.reader.dependencies([job.id], with_results=True))
    return job, dependencies


def _claimed(app: App, job: Job) -> ClaimedJob:
    """Return the job as a worker would get it for its next attempt."""
    expires_at = app.session.clock.now() + timedelta(seconds=job.policy.timeout)
    saved = job.checkpoint_body
    return ClaimedJob(
        id=job.id,
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        attempt=job.attempt + 1,
        max_attempts=max(job.max_attempts, job.attempt + 1),
        lease=Lease("local", job.lease_version + 1, expires_at),
        lease_ttl=job.policy.timeout,
        payload=_as_claimed(app, job.payload_body),
        policy=job.policy,
        key=job.key,
        tags=job.tags,
        correlation_id=job.correlation_id,
        checkpoint=None if saved is None else _as_claimed(app, saved),
        flow=job.flow,
        last_version=job.lease_version,
    )


def _as_claimed(app: App, body: Body) -> Body:
    """Return a body as a claim returns it: what was altered is not taken for a missing key."""
    is_sealed = body.encoding is Encoding.ENCRYPTED and body != REFUSED
    if is_sealed and isinstance(unreadable(body, app.store.keys), TamperedError):
        return TAMPERED
    return body


def _call(app: App, task: Task, job: ClaimedJob, dependencies: Sequence[Dependency]) -> Any:
    """Call the handler inside the app's hooks and lifespan; return its result as it would be."""
    session = app.session
    current_job.set(job)
    with asyncio.Runner() as runner:
        entered = None if session.hooks.lifespan is None else session.hooks.lifespan()
        shared = None if entered is None else runner.run(entered.__aenter__())
        try:
            state = AttemptState(job, job.lease, session.clock.monotonic(), dependencies)
            ctx = Context(PrintingActions(state, app.store, session.tasks, shared=shared))
            result = call_hooked(
                session.hooks.chain(job.type, job.queue),
                ctx,
                call_of(task, job.payload, lambda: ctx),
                is_async=inspect.iscoroutinefunction(task.function),
                in_thread=asyncio.to_thread,
            )
            if inspect.iscoroutine(result):
                result = runner.run(result)
            return decode(encode_result(result))
        finally:
            if entered is not None:
                runner.run(entered.__aexit__(None, None, None))


class PrintingActions(ContextActions):
    """Prints what a handler would have written."""

    def _save(self, **fields: Any) -> ContextScript[None]:
        for name, value in fields.items():
            shown = decode(value) if name == "checkpoint" else msgspec.to_builtins(value)
            echo(f"  {name}: {msgspec.json.encode(shown).decode()}", err=True)
        yield from ()

    def spawn(self, stages: Sequence[Stage]) -> ContextScript[list[str]]:
        jobs = arrange(side_by_side(stages)) if stages else []
        for job in jobs:
            echo(
                f"  spawn: {job.type} {bytes(job.payload.data).decode(errors='replace')}", err=True
            )
        yield from ()
        return [str(self.store.clock.new_id()) for _ in jobs]

    def complete(self, result: Any) -> ContextScript[None]:
        echo(
            f"  complete_in: {msgspec.json.encode(decode(encode_result(result))).decode()}",
            err=True,
        )
        yield from ()


def _show_failure(
    settings: Settings, job: Job, task: Task, error: BaseException, *, starts_debugger: bool
) -> None:
    """Print what the handler raised and what a worker would make of it."""
    outcome = classify(error, task.rule)
    if isinstance(error, UnreadPayload):
        error = error.error
    without_ours(error)
    failure = outcome.failure if not isinstance(outcome, Snoozed) else None
    if settings.as_json:
        echo_json({"id": job.id, "type": job.type, "outcome": "failed", "failure": failure})
    else:
        for line in clean_lines("".join(traceback.format_exception(error)).rstrip()):
            echo(f"  {line}", err=True)
        echo(_verdict(job, outcome), err=True)
    if starts_debugger and error.__traceback__ is not None:
        import pdb

        pdb.post_mortem(error.__traceback__)


def _verdict(job: Job, outcome: Any) -> str:
    match outcome:
        case Snoozed(delay):
            return f"a worker would snooze it for {delay:g} s"
        case Failed():
            from random import Random

            standing = msgspec.structs.replace(job, attempt=1, max_attempts=2)
            decision = decide(standing, outcome, Random(0))
            if decision.state is State.RETRYING:
                return "a worker would try it again, as long as attempts are left"
            return f"a worker would not try it again: it is {outcome.failure.category}"
        case _:
            return "a worker would give it back: this version of the code cannot read its payload"
