"""Replays of many dead letters: start one, see how far they are, hold, resume and stop them."""

from __future__ import annotations

from typing import Any

from fencepost.core.access.audit import conditions_of
from fencepost.core.job.job import Body
from fencepost.core.job.replay_order import ReplayOptions, ReplayView
from fencepost.core.job.replays import Order
from fencepost.core.values.names import id_text, is_id
from fencepost.errors import InvalidJobError
from fencepost.http.operations.bulk import check_expected
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.route import action, route
from fencepost.http.scope import check_queue_allowed
from fencepost.wire.bodies import check_json
from fencepost.wire.bounds import HTTP_IDS_BODY_MAX
from fencepost.wire.replays import NewReplay, WireReplays


@route("GET /v1/replays", "List replays of dead letters", WireReplays)
async def list_replays(call: Call[Nothing, Nothing]) -> Reply:
    """Return the replays that are kept, the newest first, and how far they are."""
    found = await call.run(call.actions.replays.all(call.principal.queues))
    return Reply(WireReplays(replays=found))


@route("GET /v1/replays/{id}", "See a replay of dead letters", ReplayView)
async def get_replay(call: Call[Nothing, Nothing]) -> Reply:
    """Return a replay, and how far it is."""
    replays = call.actions.replays
    return Reply(await call.run(replays.get(call.path["id"], call.principal.queues)))


@action(
    "POST /v1/replays",
    "replay.start",
    "Replay dead letters at a rate",
    ReplayView,
    "invalid_job state_conflict payload_too_large invalid_payload",
    is_body_optional=True,
    body_max=HTTP_IDS_BODY_MAX,
    status=201,
)
async def start_replay(call: Call[NewReplay, Nothing]) -> Reply:
    """Start a replay of the dead letters that meet the conditions; the leader goes on with it."""
    body, replays = call.body, call.actions.replays
    call.detail["conditions"] = conditions_of(body, without=["patch", "id", "expected"])
    if body.patch:
        call.detail["patched"] = sorted(body.patch)
    if body.queue is not None:
        check_queue_allowed(call.principal, body.queue)
    for raw in body.patch.values():
        check_json(Body(bytes(raw)))
    fresh = id_text(call.session.clock.new_id()) if body.id is None else body.id
    if not is_id(fresh):
        raise InvalidJobError("the id of a replay is a UUID of version 4")
    asked = await call.run_apart(replays.order(fresh, call.principal, _options(body)))
    check_expected(asked.total, body.expected)
    call.detail |= {"id": asked.id, "count": asked.total}
    started = await call.run(replays.launch(asked))
    return Reply(started, 201, {"location": f"/v1/replays/{started.id}"})


def _options(body: NewReplay) -> ReplayOptions:
    given: Any = {name: getattr(body, name) for name in ReplayOptions.__annotations__}
    options: ReplayOptions = given
    return options


async def _steer(call: Call[Nothing, Nothing], order: Order) -> Reply:
    replays = call.actions.replays
    return Reply(await call.run(replays.steer(call.path["id"], order, call.principal.queues)))


@action("POST /v1/replays/{id}/hold", "replay.hold", "Hold a replay", ReplayView, "state_conflict")
async def hold_replay(call: Call[Nothing, Nothing]) -> Reply:
    """Let a replay make no more jobs, until it is resumed."""
    return await _steer(call, "hold")


@action(
    "POST /v1/replays/{id}/resume",
    "replay.resume",
    "Resume a replay",
    ReplayView,
    "state_conflict",
)
async def resume_replay(call: Call[Nothing, Nothing]) -> Reply:
    """Let a replay go on."""
    return await _steer(call, "resume")


@action("POST /v1/replays/{id}/stop", "replay.stop", "Stop a replay", ReplayView, "state_conflict")
async def stop_replay(call: Call[Nothing, Nothing]) -> Reply:
    """End a replay for good; what it has not replayed stays a dead letter."""
    return await _steer(call, "stop")
