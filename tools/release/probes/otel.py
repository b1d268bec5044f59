"""A job carries the trace in which it was submitted. There is the API alone, and no exporter."""

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from fencepost import App

app = App("memory://", tracing=True)


@app.task
def add(a: int, b: int) -> int:
    return a + b


caller = SpanContext(0x1234, 0x5678, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
with trace.use_span(NonRecordingSpan(caller)):
    job = add.submit(1, b=2)
app.worker().run(until_idle=True)
assert job.result() == 3
assert f"{0x1234:032x}" in job.refresh().tags["fencepost.traceparent"]
print("a job carried the trace of its caller")
