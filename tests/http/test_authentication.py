"""Who asks: tokens that are good, and all that are not."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.test_tokens import FORGED
from tests.http.clocked import WatchedStore

from fencepost import App
from fencepost.core.access.bounds import (
    TOKEN_CACHE_SECONDS,
    TOKEN_LOOK_SECONDS,
    TOKEN_LOOKS_RATE,
    TOKEN_STALE_SECONDS,
    TOKENS_MAX,
)
from fencepost.core.access.tokens import Principal, Role
from fencepost.errors import (
    ForbiddenError,
    StoreUnavailableError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnknownOutcomeError,
)
from fencepost.http.authentication import Authenticator
from fencepost.store.interface.records.access import AccessFacet
from fencepost.testing.clock import FakeClock

HOST = (b"host", b"localhost:8000")


@pytest.fixture
def store(clock: FakeClock) -> WatchedStore:
    return WatchedStore(AccessFacet.tokens, clock)


@pytest.fixture
def app(store: WatchedStore) -> App:
    return App(store=store)


@pytest.fixture
def authenticator(app: App) -> Authenticator:
    return Authenticator(app.session)


def bearer(text: str) -> str:
    return f"Bearer {text}"


async def test_a_token_says_who_asks_and_what_they_may(
    app: App, authenticator: Authenticator
) -> None:
    token = app.tokens.create("ci", roles=["submit", "read"], queues=["mail"])
    expected = Principal(
        token_id=token.record.id,
        name="ci",
        roles=frozenset({Role.SUBMIT, Role.READ}),
        queues=frozenset({"mail"}),
    )
    for header in (bearer(token.text), f"bearer  {token.text} ", f" BEARER {token.text}"):
        assert await authenticator.identify(header) == expected
    header_ = (b"authorization", bearer(token.text).encode())
    assert await authenticator.admit([header_]) == expected, "from any host, by any name"


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Basic Zm9vOmJhcg==", "Bearer\tx", *map(bearer, FORGED)],
    ids=lambda text: ascii(text)[:70],
)
async def test_what_is_no_token_is_refused(
    app: App, authenticator: Authenticator, header: str | None
) -> None:
    """They are refused, and nothing fails."""
    app.tokens.create("ci", roles="admin")
    with pytest.raises(UnauthenticatedError):
        await authenticator.identify(header)


async def test_a_token_without_its_scheme_is_refused(
    app: App, authenticator: Authenticator
) -> None:
    token = app.tokens.create("ci", roles="admin")
    for header in (token.text, f"Token {token.text}", f"Bearer{token.text}"):
        with pytest.raises(UnauthenticatedError):
            await authenticator.identify(header)


async def test_two_tokens_at_once_are_refused(app: App, authenticator: Authenticator) -> None:
    """A proxy that looks at the other one would have decided about somebody else."""
    token = app.tokens.create("ci", roles="admin")
    header = (b"authorization", bearer(token.text).encode())
    with pytest.raises(UnauthenticatedError):
        await authenticator.admit([header, header])
    assert app.session.counters.get("access.refused", code="unauthenticated") == 1


async def test_an_expired_token_is_refused_at_once(
    app: App, authenticator: Authenticator, clock: FakeClock
) -> None:
    """Also by what was read before."""
    token = app.tokens.create("ci", roles="read", expires=2)
    await authenticator.identify(bearer(token.text))
    clock.advance(2.0)
    with pytest.raises(UnauthenticatedError):
        await authenticator.identify(bearer(token.text))


async def test_a_revoked_token_is_refused_within_seconds(
    app: App, authenticator: Authenticator, clock: FakeClock
) -> None:
    """Not before it has to be, which would cost a read for each request."""
    token = app.tokens.create("ci", roles="read")
    await authenticator.identify(bearer(token.text))
    app.tokens.revoke("ci")
    clock.advance(TOKEN_CACHE_SECONDS - 0.001)
    await authenticator.identify(bearer(token.text))
    clock.advance(0.001)
    with pytest.raises(UnauthenticatedError):
        await authenticator.identify(bearer(token.text))


async def test_tokens_are_read_now_and_then_whoever_asks(
    app: App, authenticator: Authenticator, store: WatchedStore, clock: FakeClock
) -> None:
    """Also when strangers try one id after another."""
    token = app.tokens.create("ci", roles="read")
    for _ in range(10):
        await authenticator.identify(bearer(token.text))
    assert store.calls == 1
    for number in range(500):
        clock.advance(0.01)
        with pytest.raises(UnauthenticatedError):
            await authenticator.identify(bearer(f"fp_{number:012x}_{'0' * 48}"))
    assert store.calls <= 1 + 6 * TOKEN_LOOKS_RATE + 5 / TOKEN_LOOK_SECONDS


async def test_a_token_is_good_as_soon_as_it_is_made(
    app: App, authenticator: Authenticator, clock: FakeClock
) -> None:
    app.tokens.create("first", roles="read")
    with pytest.raises(UnauthenticatedError):
        await authenticator.identify(None)
    clock.advance(0.001)
    token = app.tokens.create("second", roles="read")
    assert (await authenticator.identify(bearer(token.text))).name == "second"


async def test_a_token_that_is_made_while_tokens_are_read_is_good(
    app: App, authenticator: Authenticator, store: WatchedStore, clock: FakeClock
) -> None:
    """The read that is under way began before, for another one, and does not have it."""
    first = app.tokens.create("first", roles="read")
    await authenticator.identify(bearer(first.text))
    store.way_back = asyncio.Event()
    clock.advance(0.001)
    stranger = asyncio.create_task(authenticator.identify(bearer(f"fp_{0:012x}_{'0' * 48}")))
    while store.calls < 2:
        await asyncio.sleep(0)
    clock.advance(0.001)
    token = app.tokens.create("second", roles="read")
    late = asyncio.create_task(authenticator.identify(bearer(token.text)))
    await asyncio.sleep(0)
    store.way_back.set()
    assert (await late).name == "second"
    with pytest.raises(UnauthenticatedError):
        await stranger


async def test_a_stranger_who_tries_many_tokens_keeps_new_ones_out_for_a_second_at_most(
    app: App, authenticator: Authenticator, clock: FakeClock
) -> None:
    app.tokens.create("first", roles="read")
    for number in range(50):
        with pytest.raises(UnauthenticatedError):
            await authenticator.identify(bearer(f"fp_{number:012x}_{'0' * 48}"))
    token = app.tokens.create("second", roles="read")
    clock.advance(TOKEN_LOOK_SECONDS)
    assert (await authenticator.identify(bearer(token.text))).name == "second"


async def test_many_who_come_at_once_share_one_read(
    app: App, authenticator: Authenticator, store: WatchedStore
) -> None:
    """And one of them who hangs up does not end it for the others."""
    token = app.tokens.create("ci", roles="read")
    store.gate = asyncio.Event()
    waiting = [asyncio.create_task(authenticator.identify(bearer(token.text))) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    store.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert {each.name for each in found[1:] if isinstance(each, Principal)} == {"ci"}
    assert store.calls == 1


@pytest.mark.parametrize("trouble", [StoreUnavailableError("away"), UnknownOutcomeError("lost")])
async def test_while_the_store_is_away_known_tokens_are_good_for_a_minute(
    app: App,
    authenticator: Authenticator,
    store: WatchedStore,
    clock: FakeClock,
    trouble: Exception,
) -> None:
    """Then nobody is let in, which is 503 and not 401."""
    token = app.tokens.create("ci", roles="read")
    await authenticator.identify(bearer(token.text))
    store.trouble = trouble
    for _ in range(100):
        clock.advance(TOKEN_STALE_SECONDS / 100 - 0.001)
        await authenticator.identify(bearer(token.text))
    assert store.calls <= 2 + TOKEN_STALE_SECONDS / TOKEN_LOOK_SECONDS
    clock.advance(TOKEN_STALE_SECONDS)
    for header in (bearer(token.text), None):
        with pytest.raises(StoreUnavailableError):
            await authenticator.identify(header)
    store.trouble = None
    await authenticator.identify(bearer(token.text))


async def test_a_store_that_was_never_reached_lets_nobody_in(app: App, store: WatchedStore) -> None:
    """Not even where everybody is, as long as there is no token: there may be one."""
    store.trouble = StoreUnavailableError("away")
    for is_local in (True, False):
        with pytest.raises(StoreUnavailableError):
            await Authenticator(app.session, is_local=is_local).admit([HOST])


async def test_a_token_makes_no_more_requests_than_it_may(
    app: App, authenticator: Authenticator, clock: FakeClock
) -> None:
    """429, with how long to wait; the others are not held up."""
    slow = app.tokens.create("slow", roles="read", rate=2)
    fast = app.tokens.create("fast", roles="read")
    for _ in range(2):
        await authenticator.identify(bearer(slow.text))
    with pytest.raises(TooManyRequestsError) as caught:
        await authenticator.identify(bearer(slow.text))
    assert caught.value.retry_after == pytest.approx(0.5)
    for _ in range(10):
        await authenticator.identify(bearer(fast.text))
    clock.advance(caught.value.retry_after)
    await authenticator.identify(bearer(slow.text))


async def test_only_who_has_the_secret_uses_up_a_tokens_rate(
    app: App, authenticator: Authenticator
) -> None:
    """The id of a token is no secret; whoever knows it must not be able to lock it out."""
    token = app.tokens.create("ci", roles="read", rate=1)
    for _ in range(10):
        with pytest.raises(UnauthenticatedError):
            await authenticator.identify(bearer(f"fp_{token.record.id}_{'0' * 48}"))
    await authenticator.identify(bearer(token.text))


async def test_buckets_are_bounded(app: App, authenticator: Authenticator) -> None:
    token = app.tokens.create("ci", roles="read", rate=1000)
    await authenticator.identify(bearer(token.text))
    buckets = authenticator._buckets
    buckets |= dict.fromkeys(map(str, range(TOKENS_MAX)), next(iter(buckets.values())))
    await authenticator.identify(bearer(token.text))
    assert len(buckets) == 1


async def test_without_any_token_this_machine_may_everything_and_nobody_else(app: App) -> None:
    """What a browser brings along is refused."""
    local = Authenticator(app.session, is_local=True)
    assert await local.admit([HOST]) == Principal.local()
    for headers in (
        [(b"host", b"evil.example")],
        [HOST, (b"origin", b"http://evil.example")],
        [],
    ):
        with pytest.raises(ForbiddenError):
            await local.admit(headers)
    with pytest.raises(UnauthenticatedError):
        await Authenticator(app.session).admit([HOST])


async def test_the_first_token_closes_the_door_and_to_revoke_it_opens_nothing(
    app: App, clock: FakeClock
) -> None:
    local = Authenticator(app.session, is_local=True)
    await local.admit([HOST])
    app.tokens.create("ci", roles="read")
    for step in (lambda: None, lambda: app.tokens.revoke("ci")):
        step()
        clock.advance(TOKEN_CACHE_SECONDS)
        with pytest.raises(UnauthenticatedError):
            await local.admit([HOST])


async def test_a_token_that_was_good_is_looked_at_again_whenever_tokens_were_read(
    app: App, authenticator: Authenticator, clock: FakeClock
) -> None:
    """What was verified is remembered, and no longer than what it was verified by."""
    first = app.tokens.create("ci", roles="read")
    other = app.tokens.create("other", roles="submit")
    for token, role in ((first, Role.READ), (other, Role.SUBMIT), (first, Role.READ)):
        assert (await authenticator.identify(bearer(token.text))).roles == {role}
    forged = f"{first.text[:-1]}{'0' if first.text[-1] != '0' else '1'}"
    with pytest.raises(UnauthenticatedError):
        await authenticator.identify(bearer(forged))
    app.tokens.revoke("ci")
    late = app.tokens.create("late", roles="admin")
    clock.advance(TOKEN_LOOK_SECONDS)
    assert (await authenticator.identify(bearer(late.text))).name == "late", "reads them again"
    with pytest.raises(UnauthenticatedError):
        await authenticator.identify(bearer(first.text))
