"""What happens between a process and a server."""

from __future__ import annotations

from collections.abc import Callable

from lab.chaos.faults.fault import ONE, Fault, NotNow, Scene
from lab.chaos.proxy import Cut, Proxy
from lab.chaos.redis_server import RedisStage
from lab.chaos.servers import PostgresStage

CUTS = (3, 10)
CUT_TIMEOUT = 5.0
DELAY = (0.02, 0.25)


Way = Callable[[Scene], Proxy]


def _to_store(scene: Scene) -> Proxy:
    """Return the way to the server that is written to."""
    if isinstance(scene.stage, RedisStage):
        return scene.stage.proxy
    assert isinstance(scene.stage, PostgresStage)
    port = scene.stage.primary.port
    return next(proxy for proxy in scene.stage.proxies if proxy.target == port)


def cutting(where: Cut, way: Way = _to_store) -> Callable[[Scene], None]:
    """Return the fault that cuts some connections there."""

    def strike(scene: Scene) -> None:
        proxy = way(scene)
        asked = scene.rng.randint(*CUTS)
        proxy.cut, proxy.left = where, asked
        deadline = scene.clock.monotonic() + CUT_TIMEOUT
        while proxy.left > 0 and scene.clock.monotonic() < deadline:
            scene.clock.sleep(0.01)
        left = proxy.left
        proxy.heal()
        if left == asked:
            raise NotNow("nothing passed that could be cut")

    strike.__doc__ = f"Cut connections at the {where.value} of what passes."
    return strike


def delay(scene: Scene) -> None:
    """Let everything be late for a while."""
    proxy = _to_store(scene)
    proxy.delay = scene.rng.uniform(*DELAY)
    scene.wait(1.0, 2.0)
    proxy.heal()


def blackening(way: Way = _to_store) -> Callable[[Scene], None]:
    """Return the fault that swallows everything on this way."""

    def strike(scene: Scene) -> None:
        """Swallow everything, and tell nobody."""
        proxy = way(scene)
        proxy.is_black_hole = True
        scene.wait(0.5, scene.settings.ttl * 1.6)
        proxy.heal()

    return strike


SERVERS = ("postgres", "redis")
NETWORK_FAULTS = (
    *(
        Fault(f"cut_{where.value}", cutting(where), SERVERS, is_wide=True, layouts=ONE)
        for where in Cut
    ),
    Fault("delay", delay, SERVERS, is_wide=True, layouts=ONE),
    Fault("black_hole", blackening(), SERVERS, is_wide=True, layouts=ONE),
)
