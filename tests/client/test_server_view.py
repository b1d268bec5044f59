"""What a client is told about its server, blocking and awaited."""

from __future__ import annotations

import pytest

from fencepost import App, Client, JobNotFoundError
from fencepost.maintenance.series import Sampler
from fencepost.store.interface.queue import ClaimRequest


def hold(app: App, client: Client) -> str:
    """Return the id of a job that a worker holds."""
    job_id = client.submit("elsewhere").id
    store = app.session.store
    request = ClaimRequest(worker="w9", types=frozenset(["elsewhere"]), limit=1, lease_ttl=60.0)
    assert store.run(store.queue.claim(request)).jobs
    return job_id


async def test_both_faces_say_the_same_of_a_server(app: App, client: Client) -> None:
    job_id = hold(app, client)
    await Sampler(app.session.store).step()
    view, awaited = client.server, client.aio.server
    me = view.me()
    assert (me.name, me.by, me.store.engine) == ("local", "local", "sqlite")
    assert (await awaited.me()).roles == me.roles
    assert [each.code for each in view.doctor()] == [each.code for each in await awaited.doctor()]
    assert view.attention() == await awaited.attention()
    assert view.dead_groups() == await awaited.dead_groups() == []
    (lease,) = view.leases(worker="w9")
    assert (lease.job_id, lease.worker) == (job_id, "w9")
    assert await awaited.leases() == [lease]
    assert await awaited.leases(worker="nobody") == []
    assert view.refusals(job_id) == await awaited.refusals(job_id) == []
    with pytest.raises(JobNotFoundError):
        view.refusals("x")
    drawn = view.series("running", "depth", by="queue", window="1m")
    assert [(line.metric, line.name) for line in drawn.series] == [
        ("running", "default"),
        ("depth", "default"),
    ]
    assert max(value or 0 for value in drawn.series[0].values) == 1
    again = await awaited.series("running", window=60, step="10s")
    assert [line.name for line in again.series] == [None]
