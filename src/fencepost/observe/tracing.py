"""OpenTelemetry spans from submit to handler, by the conventions for messaging; off by default.

A submission is a span of kind producer, whose context travels with the job in a reserved tag. Each
attempt is a span of kind consumer that links to it, or is its child. A span ends after the store
has answered, and nothing waits for the collector of spans.

Imported only by an app with traces: if they are off, they cost nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace as replace_fields
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fencepost.core.bounds import TAG_VALUE_LENGTH_MAX
from fencepost.core.job.job import ClaimedJob, NewJob
from fencepost.core.job.outcome import Failed, Outcome
from fencepost.core.job.task import Isolation, Task
from fencepost.core.values.names import RESERVED_TAGS
from fencepost.errors import Snooze

SYSTEM = "fencepost"
_propagator = TraceContextTextMapPropagator()
_FIELDS = ("traceparent", "tracestate")


class SubmissionReply(Protocol):
    """The reply to the submission of a job."""

    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=SubmissionReply)


class Sending(NamedTuple):
    """A submission in progress: its jobs, which carry its context, and its span."""

    jobs: list[NewJob]
    span: Span

    def note_one(self, reply: R) -> R:
        """Add the id of the job to the span, and return *reply*."""
        self.span.set_attribute("messaging.message.id", reply.id)
        return reply


class Tracing:
    """Makes the spans of one app."""

    def __init__(self, *, is_parent: bool = False) -> None:
        self._tracer = trace.get_tracer(SYSTEM)
        self._is_parent = is_parent

    @contextmanager
    def submitting(self, jobs: Sequence[NewJob]) -> Iterator[Sending]:
        """Make a span around a submission."""
        queues = {job.queue for job in jobs}
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "submit",
            "messaging.operation.type": "send",
        }
        if len(queues) == 1:
            attributes["messaging.destination.name"] = jobs[0].queue
        if len(jobs) == 1:
            attributes |= _particulars(jobs[0])
        else:
            attributes["messaging.batch.message_count"] = len(jobs)
        name = f"submit {jobs[0].queue}" if len(queues) == 1 else "submit"
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.PRODUCER, attributes=attributes
        ) as span:
            yield Sending(self.carrying(jobs), span)

    def carrying(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """Return *jobs* with the present context in their tags, if there is one."""
        return with_tags(jobs, self.present())

    def present(self, span: Span | None = None) -> dict[str, str]:
        """Return the present context, or that of *span*, as the tags of a job."""
        carrier: dict[str, str] = {}
        context = None if span is None else trace.set_span_in_context(span, contexts.Context())
        _propagator.inject(carrier, context)
        return {
            f"{RESERVED_TAGS}{name}": text
            for name, text in carrier.items()
            if len(text) <= TAG_VALUE_LENGTH_MAX
        }

    def ticking(self, cron: str, jobs: Sequence[NewJob]) -> Sending:
        """Start a span around the firing of a cron: the root of a trace, for nobody asked for it.

        The caller ends it if this process was the one to fire; a span that is never ended does not
        exist for anybody.
        """
        span = self._tracer.start_span(
            f"tick {cron}",
            context=contexts.Context(),
            kind=SpanKind.PRODUCER,
            attributes={
                "messaging.system": SYSTEM,
                "messaging.operation.name": "tick",
                "messaging.operation.type": "send",
                "messaging.batch.message_count": len(jobs),
                "fencepost.cron": cron,
            },
        )
        return Sending(with_tags(jobs, self.present(span)), span)

    def around(self, task: Task, *jobs: ClaimedJob) -> Task:
        """Return *task* with a function that makes a span around the attempt of each job.

        A child process runs the function itself; see ``watch``.
        """
        function = task.function
        if task.isolation is Isolation.LOOP:

            @wraps(function)
            async def traced_async(*args: Any, **kwargs: Any) -> Any:
                with self._processing_all(jobs):
                    return await function(*args, **kwargs)

            return replace_fields(task, function=traced_async)
        if task.isolation is Isolation.THREAD:

            @wraps(function)
            def traced(*args: Any, **kwargs: Any) -> Any:
                with self._processing_all(jobs):
                    return function(*args, **kwargs)

            return replace_fields(task, function=traced)
        return task

    async def watch(
        self, job: ClaimedJob, run: Callable[[dict[str, str]], Awaitable[Outcome]]
    ) -> Outcome:
        """Make a span around an attempt in a child process; its outcome says whether it failed.

        *run* gets the span's context, as the tags of what the attempt spawns.
        """
        with self._processing(job) as span:
            outcome = await run(self.present())
            if isinstance(outcome, Failed):
                failure = outcome.failure
                _fail(span, failure.exception or str(failure.category))
            return outcome

    @contextmanager
    def _processing_all(self, jobs: Sequence[ClaimedJob]) -> Iterator[None]:
        with ExitStack() as spans:
            for job in jobs:
                spans.enter_context(self._processing(job))
            yield

    @contextmanager
    def _processing(self, job: ClaimedJob) -> Iterator[Span]:
        origin = _origin(job)
        is_child = self._is_parent and origin.is_valid
        context = contexts.Context()
        if is_child:
            context = trace.set_span_in_context(trace.NonRecordingSpan(origin), context)
        span = self._tracer.start_span(
            f"process {job.queue}",
            context=context,
            kind=SpanKind.CONSUMER,
            links=[Link(origin)] if origin.is_valid and not is_child else [],
            attributes={
                "messaging.system": SYSTEM,
                "messaging.destination.name": job.queue,
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.message.id": job.id,
                "fencepost.job.attempt": job.attempt,
                **_particulars(job),
            },
        )
        with trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield span
            except Snooze:
                raise  # no failure: the handler asked for it
            except BaseException as error:
                _fail(span, type(error).__qualname__)
                raise


def with_tags(jobs: Sequence[NewJob], tags: Mapping[str, str]) -> list[NewJob]:
    """Return *jobs* with more tags."""
    return [replace(job, tags={**job.tags, **tags}) for job in jobs] if tags else list(jobs)


def _fail(span: Span, kind: str) -> None:
    """Mark a span as failed, without the message: it may contain parts of the payload (S1-95)."""
    span.set_status(Status(StatusCode.ERROR))
    span.set_attribute("error.type", kind)


def _particulars(job: NewJob | ClaimedJob) -> dict[str, str]:
    attributes = {"fencepost.job.type": job.type}
    if job.correlation_id is not None:
        attributes["messaging.message.conversation_id"] = job.correlation_id
    return attributes


def _origin(job: ClaimedJob) -> trace.SpanContext:
    """Return the context in which a job was submitted; an invalid one if there is none."""
    carrier = {name: job.tags.get(f"{RESERVED_TAGS}{name}", "") for name in _FIELDS}
    context = _propagator.extract(carrier, contexts.Context())
    return trace.get_current_span(context).get_span_context()
