"""Mutants of tokens: what stores keep of them, who is let in, and how far they get."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

CORE = "tests/core/test_tokens.py"
AUTHENTICATION = "tests/http/test_authentication.py"
ROLES = "tests/http/test_roles.py"
STREAM = "tests/http/test_stream.py"


def _kept(place: Place, name: str, about: str, patch: Patch, test: str = "TestTokens") -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (patch,), (test,))


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"server-{name}", about, Place.SERVER, patches, tests)


STAYS = "a token that is revoked stays good"
EACH_TIME = "a token that is revoked again was revoked just now"
FORGED = "a token may take the id of another"
LINGERS = "a token that ended long ago is kept an instant too long"

AUDIT = "tests/http/test_audit.py"

MUTANTS = (
    # What is on record.
    _mutant(
        "refused-tries-leave-no-trace",
        "an operator's action that was refused is not in the audit log",
        "http.request.endpoint",
        "return self.route.action is not None and not is_other",
        "return False",
        AUDIT,
    ),
    _mutant(
        "refused-tries-fill-the-disk",
        "every refused try is recorded",
        "core.access.audit",
        "if window.recorded < AUDIT_REFUSED_MAX:",
        "if True:",
        AUDIT,
    ),
    _mutant(
        "refused-tries-are-not-counted",
        "how many tries were refused besides those on record is never said",
        "core.access.audit",
        "            if window.more:",
        "            if False:",
        AUDIT,
    ),
    _mutant(
        "conditions-are-forgotten",
        "a bulk action is recorded without what it was for",
        "http.operations.bulk",
        '    call.detail["conditions"] = conditions\n',
        "",
        AUDIT,
    ),
    _mutant(
        "content-is-recorded",
        "a bulk action is recorded with what payloads are compared with",
        "http.operations.bulk",
        'list(map(without_value, conditions["where"]))',
        'conditions["where"]',
        AUDIT,
    ),
    # What stores keep.
    _kept(
        Place.SQLITE,
        "revoke-does-not-stick",
        STAYS,
        Patch(
            "fencepost.store.sqlite.records.access", "coalesce(revoked_at, ?)", "revoked_at + 0 * ?"
        ),
    ),
    _kept(
        Place.POSTGRES,
        "revoke-does-not-stick",
        STAYS,
        Patch(
            "fencepost.store.postgres.records.access",
            "coalesce(revoked_at, %s::timestamptz, clock_timestamp())",
            "least(revoked_at, nullif(revoked_at, %s::timestamptz))",
        ),
    ),
    _kept(
        Place.SQLITE,
        "revoked-anew",
        EACH_TIME,
        Patch("fencepost.store.sqlite.records.access", "coalesce(revoked_at, ?)", "?"),
    ),
    _kept(
        Place.POSTGRES,
        "revoked-anew",
        EACH_TIME,
        Patch("fencepost.store.postgres.records.access", "coalesce(revoked_at, %s", "coalesce(%s"),
    ),
    _kept(
        Place.SQLITE,
        "token-takes-the-id-of-another",
        FORGED,
        Patch(
            "fencepost.store.sql.records.access",
            "if not hmac.compare_digest(record.digest, digest):",
            "if not hmac.compare_digest(digest, digest):",
        ),
    ),
    _kept(
        Place.SQLITE,
        "token-lingers",
        LINGERS,
        Patch(
            "fencepost.store.sqlite.records.access",
            "revoked_at <= (select at from given) or expires_at <=",
            "revoked_at < (select at from given) or expires_at <",
        ),
    ),
    _kept(
        Place.POSTGRES,
        "token-lingers",
        LINGERS,
        Patch(
            "fencepost.store.postgres.records.access",
            "revoked_at <= given.at or expires_at <= given.at",
            "revoked_at < given.at or expires_at < given.at",
        ),
    ),
    _kept(
        Place.SQLITE,
        "action-outlives-its-retention",
        "`<` for `<=`: an entry of the audit log is kept an instant too long",
        Patch("fencepost.store.sqlite.records.access", "where at <= ? - ?", "where at < ? - ?"),
        "TestAuditLog",
    ),
    _kept(
        Place.POSTGRES,
        "action-pages-repeat-their-last",
        "a page of the audit log begins with what the page before ended with",
        Patch("fencepost.store.postgres.records.access", "where seq < %s", "where seq <= %s"),
        "TestAuditLog",
    ),
    # Who is let in.
    _mutant(
        "verify-ignores-expiry",
        "a token that has expired is good until it is revoked",
        "core.access.tokens",
        "is_same and record.is_live(now)",
        "is_same and record.revoked_at is None",
        CORE,
    ),
    _mutant(
        "verify-lets-in-at-expiry",
        "`<=` for `<`: a token is good at the instant of its expiry",
        "core.access.tokens",
        "self.expires_at is None or now < self.expires_at",
        "self.expires_at is None or now <= self.expires_at",
        CORE,
    ),
    _mutant(
        "verify-ignores-revocation",
        "a token that was revoked is good until it expires",
        "core.access.tokens",
        "return self.revoked_at is None and (",
        "return (",
        CORE,
    ),
    _mutant(
        "verify-compares-no-digest",
        "with the id of a token, no secret is needed",
        "core.access.tokens",
        "is_same = hmac.compare_digest(digest_of(text), expected)",
        "is_same = hmac.compare_digest(expected, expected)",
        CORE,
    ),
    _mutant(
        "revoked-token-stays-cached",
        "a server that has read the tokens once reads them no more",
        "http.authentication",
        "self._tokens.read(max_age)",
        'self._tokens.read(float("inf"))',
        AUTHENTICATION,
    ),
    _mutant(
        "new-token-is-unknown-for-a-second",
        "a token that was just made is refused where tokens were read a moment before",
        "http.authentication",
        "if wait else self._tokens.read_anew()",
        "if True else self._tokens.read_anew()",
        AUTHENTICATION,
    ),
    _mutant(
        "new-token-joins-an-old-read",
        "a token that is made while tokens are read is refused",
        "http.authentication",
        "        while max(self._read_at, self._failed_at) < now:\n",
        "        if max(self._read_at, self._failed_at) < now:\n",
        AUTHENTICATION,
    ),
    _mutant(
        "last-revocation-opens-the-door",
        "when the last token is revoked, everybody on this machine is let in",
        "http.authentication",
        "if self._is_local and not tokens:",
        "if self._is_local and all(each.revoked_at for each in tokens.values()):",
        AUTHENTICATION,
    ),
    _mutant(
        "refused-use-up-the-rate",
        "with the id of a token, its requests can be used up",
        "http.authentication",
        "        if not verify(presented, record, self._clock.now()):\n",
        "        if record is not None:\n"
        "            self._count(record)\n"
        "        if not verify(presented, record, self._clock.now()):\n",
        AUTHENTICATION,
    ),
    # How far they get.
    _mutant(
        "roles-are-not-checked",
        "any token may do everything",
        "http.roles",
        "if principal.roles.isdisjoint(self._roles):",
        "if not principal.roles:",
        ROLES,
    ),
    _mutant(
        "scoped-token-asks-of-the-store",
        "a token for one queue may ask about all of them",
        "http.roles",
        "if route.is_store_wide and principal.queues is not None:",
        "if route.is_store_wide and principal.queues == frozenset():",
        ROLES,
    ),
    _mutant(
        "scope-is-not-checked-by-name",
        "a token for one queue may name any other",
        "http.scope",
        "if not principal.may_use(queue):",
        "if not principal.roles:",
        ROLES,
    ),
    _mutant(
        "scope-is-not-checked-by-id",
        "a token for one queue may look at and steer the jobs of others, if it knows their ids",
        "http.operations.jobs",
        "if not call.principal.may_use(job.queue):\n        raise JobNotFoundError(job_id)",
        "if not call.principal.roles:\n        raise JobNotFoundError(job_id)",
        ROLES,
    ),
    _mutant(
        "scope-is-not-checked-by-a-claim",
        "a token for one queue that claims from no queue by name claims from all",
        "http.operations.claims",
        "        if principal.queues is None:\n            return None\n",
        "        if principal.queues is None or body.types is not None:\n            return None\n",
        ROLES,
    ),
    _mutant(
        "revoked-token-hears-on",
        "a stream goes on after its token was revoked",
        "http.operations.stream",
        "                    await self._check_again()",
        "                    call.is_off()",
        STREAM,
    ),
)
