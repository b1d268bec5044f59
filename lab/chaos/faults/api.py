"""What happens to the HTTP API, and between it and its workers."""

from __future__ import annotations

from lab.chaos.crew import API
from lab.chaos.faults.fault import Fault, NotNow, Scene
from lab.chaos.faults.network import blackening, cutting
from lab.chaos.faults.processes import choose
from lab.chaos.gate import Gate
from lab.chaos.proxy import Cut, Proxy


def _gate(scene: Scene) -> Gate:
    assert scene.gate is not None
    return scene.gate


def _way(scene: Scene) -> Proxy:
    return _gate(scene).proxy


def kill_api(scene: Scene) -> None:
    """Kill the API in mid-request; another takes its place."""
    scene.crew.kill(choose(scene, API))
    _await_next(scene)


def stop_api(scene: Scene) -> None:
    """Stop the API until all leases have run out, and let it answer what was asked before."""
    member = choose(scene, API)
    scene.crew.stop(member)
    try:
        scene.wait(scene.settings.ttl * 1.1, scene.settings.ttl * 1.8)
    finally:
        scene.crew.go_on(member)


def terminate_api(scene: Scene) -> None:
    """Ask the API to end, as a rolling deploy does; another takes its place."""
    member = choose(scene, API)
    process = member.process
    assert process is not None
    scene.crew.terminate(member)
    process.wait()
    _await_next(scene)


def _await_next(scene: Scene) -> None:
    if not _gate(scene).await_open():
        raise NotNow("the next API did not listen in time")


NODE = ("node",)
API_FAULTS = (
    Fault("kill_api", kill_api, is_wide=True, weight=2, fleets=NODE),
    Fault("stop_api", stop_api, is_wide=True, fleets=NODE),
    Fault("terminate_api", terminate_api, is_wide=True, fleets=NODE),
    *(
        Fault(f"api_cut_{where.value}", cutting(where, _way), is_wide=True, fleets=NODE)
        for where in Cut
    ),
    Fault("api_black_hole", blackening(_way), is_wide=True, fleets=NODE),
)
