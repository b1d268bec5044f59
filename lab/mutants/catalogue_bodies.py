"""Mutants of what a server bears: heads that are read in two ways, large bodies, many of them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

HOSTILE = "tests/http/test_hostile.py"
BODIES = "tests/http/test_bodies.py"
STREAM = "tests/http/test_stream.py"
BAD_INPUT = "tests/http/test_bad_input.py"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.http.{module}", old, new),)
    return Mutant(f"server-{name}", about, Place.SERVER, patches, tests)


MUTANTS = (
    # What is read in two ways.
    _mutant(
        "length-and-encoding-are-both-taken",
        "with h11, a request is hidden behind one that has a length and an encoding",
        "server.framing",
        "    if has_length:\n",
        "    if has_length and not codings:\n",
        HOSTILE,
    ),
    _mutant(
        "encoding-within-an-encoding-is-taken",
        "with httptools, a compressed body is read as if it were not",
        "server.framing",
        'codings[0].strip().lower() != b"chunked"',
        'not codings[0].strip().lower().endswith(b"chunked")',
        HOSTILE,
    ),
    _mutant(
        "two-hosts-are-taken",
        "with httptools, a request has two names for this server",
        "server.framing",
        "    if hosts > 1 or",
        "    if hosts > 2 or",
        HOSTILE,
    ),
    _mutant(
        "bare-line-feeds-are-taken",
        "with h11, a line feed in a value begins another header",
        "server.framing",
        'if head.count(b"\\n") != head.count(b"\\r\\n"):',
        'if head.count(b"\\n") < head.count(b"\\r\\n"):',
        HOSTILE,
    ),
    _mutant(
        "trailers-are-headers",
        "with httptools, a token behind the body opens what no proxy has seen",
        "server.uvicorn_protocols",
        "        if not self._has_head:\n",
        "        if self._has_head is not None:\n",
        HOSTILE,
    ),
    _mutant(
        "slash-in-disguise-leads-somewhere",
        "/v1%2fjobs means /v1/jobs, past a proxy that decides by the path",
        "server.framing",
        "7f|2f|5c",
        "7f",
        HOSTILE,
    ),
    _mutant(
        "control-in-disguise-leads-somewhere",
        "/v1/jobs%0a means /v1/jobs",
        "request.endpoint",
        '    if not is_plain(scope["path"], scope.get("raw_path") or b""):\n',
        '    if not is_plain(scope["path"].strip(), b""):\n',
        HOSTILE,
    ),
    # Who is local.
    _mutant(
        "proxy-is-local",
        "without a token, a request that a proxy on this machine passes on may do everything",
        "origin",
        "        elif name in _RELAYED or name.startswith(_RELAYED_PREFIX):\n",
        "        elif name in _RELAYED and name.startswith(_RELAYED_PREFIX):\n",
        HOSTILE,
    ),
    _mutant(
        "page-without-an-origin-is-local",
        "without a token, a page of another site may ask if its browser sends no origin",
        "origin",
        "and value not in _OWN_SITES",
        "and value in _OWN_SITES and not value",
        HOSTILE,
    ),
    # Streams.
    _mutant(
        "streams-are-counted-late",
        "of streams that are asked for at once, more are served than there may be",
        "operations.stream",
        "    call.api.streams += 1\n    try:\n        call.listen()\n"
        "        made = Stream(call, _Wanted(call), await _start(call))\n"
        "    except BaseException:\n        call.api.streams -= 1\n        raise\n",
        "    call.listen()\n    made = Stream(call, _Wanted(call), await _start(call))\n"
        "    call.api.streams += 1\n",
        STREAM,
    ),
    _mutant(
        "refused-stream-keeps-its-place",
        "an invalid request for a stream takes a place for good",
        "operations.stream",
        "    except BaseException:\n        call.api.streams -= 1\n        raise\n",
        "    except BaseException:\n        raise\n",
        STREAM,
    ),
    # One large body.
    _mutant(
        "large-body-is-read-on-the-loop",
        "nobody is answered while a large body is decoded",
        "request.call",
        "return work() if size <= HTTP_BODY_ASIDE else",
        "return work() if size >= 0 else",
        BODIES,
    ),
    _mutant(
        "batch-is-prepared-on-the-loop",
        "nobody is answered while the jobs of a large batch are prepared",
        "request.call",
        "        return await self.api.aside.run(self.size, work)\n",
        "        return work()\n",
        BODIES,
    ),
    _mutant(
        "jobs-are-counted-after-they-are-decoded",
        "ten million jobs are decoded before it is seen that they are too many",
        "request.read",
        "            if self._is_batch:\n                check_count(items)\n",
        "",
        BODIES,
    ),
    Mutant(
        "server-values-are-not-counted",
        "thirty megabytes of small values are decoded",
        Place.SERVER,
        (
            Patch(
                "fencepost.wire.bodies",
                "        if values > JSON_VALUES_MAX:\n",
                "        if values < 0:\n",
            ),
        ),
        ("tests/http/test_shape.py",),
    ),
    Mutant(
        "server-flow-has-no-bound",
        "a flow over HTTP has as many nodes as fit into a body",
        Place.SERVER,
        (
            Patch(
                "fencepost.http.request.read",
                "            if self._is_batch:\n                check_count(items)\n",
                "",
            ),
            Patch(
                "fencepost.http.operations.flows",
                "    if count > HTTP_BATCH_MAX:\n",
                "    if count < 0:\n",
            ),
        ),
        (BAD_INPUT,),
    ),
    # Many bodies.
    _mutant(
        "bodies-have-no-budget",
        "unfinished bodies fill the memory of the server",
        "server.bodies",
        "            if self.held + count > room:\n                raise too_many_bodies()\n",
        "",
        BODIES,
    ),
    _mutant(
        "large-bodies-take-all-room",
        "heartbeats are refused while somebody fills the room for bodies",
        "server.bodies",
        "int(self._limit * HTTP_BODIES_LARGE_SHARE)",
        "int(self._limit)",
        BODIES,
    ),
    _mutant(
        "body-is-never-given-back",
        "after some requests there is no room for bodies, for good",
        "request.endpoint",
        "        finally:\n            held.give_back()\n",
        "        finally:\n            pass\n",
        BODIES,
    ),
    _mutant(
        "waiting-claim-keeps-its-body",
        "claims that wait take the room of everybody's heartbeats",
        "request.endpoint",
        "            inbox.held.give_back()\n",
        "            pass\n",
        BODIES,
    ),
    _mutant(
        "slow-body-keeps-its-room",
        "who stops sending keeps others out for half a minute",
        "server.bodies",
        "            while slow and self.held + count > room:\n",
        "            while slow and self.held + count < 0:\n",
        BODIES,
    ),
    _mutant(
        "drops-buy-a-body-time",
        "a body of which a byte comes now and then is never slow",
        "server.bodies",
        "self.size - self._marked >= HTTP_BODY_STEP:",
        "self.size > self._marked:",
        BODIES,
    ),
)
