"""What needs attention."""

from __future__ import annotations

from fencepost.actions.local.letters import needs_attention
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.route import route
from fencepost.wire.attention import Attention


@route("GET /v1/attention", "See what needs attention", Attention)
async def get_attention(call: Call[Nothing, Nothing]) -> Reply:
    """Return what a person should look at, worst first; a token with queues sees only these."""
    queues = call.principal.queues
    letters = await call.api.letters.read(queues)
    findings = await call.api.findings.read() if queues is None else []
    items = await call.run(needs_attention(call.session, letters.marks, findings, queues))
    return Reply(Attention(at=call.session.clock.now(), items=items))
