"""The raw limit: what this server does for batched claims and completions, and no framework.

Three scripts over plain columns. A job waits in a sorted set by its number and has its payload in a
hash; it can be found by its random id. The claim takes the first jobs and writes a fence and a
lease for each; the completion compares the fences, removes the leases, stores the results and
counts. Batches are as large as the slots of a measured worker; what is submitted is made before the
clock starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from fencepost.clock import Clock

BATCH = 100
"""Jobs of one claim and of one completion."""
PIPELINED = 10
"""Scripts that are sent together by a bulk."""

SUBMIT = b"""
local last = redis.call('INCRBY', KEYS[1] .. 'seq', #ARGV / 2)
local ids, ready, payloads = {}, {}, {}
for at = 1, #ARGV, 2 do
  local number = last - #ARGV / 2 + (at + 1) / 2
  ids[at], ids[at + 1] = ARGV[at], number
  ready[at], ready[at + 1] = number, number
  payloads[at], payloads[at + 1] = number, ARGV[at + 1]
end
redis.call('HSET', KEYS[1] .. 'ids', unpack(ids))
redis.call('HSET', KEYS[1] .. 'payload', unpack(payloads))
redis.call('ZADD', KEYS[1] .. 'ready', unpack(ready))
return last
"""
CLAIM = b"""
local time = redis.call('TIME')
local ends = time[1] * 1000000 + time[2] + 30000000
local found = redis.call('ZPOPMIN', KEYS[1] .. 'ready', ARGV[1])
local numbers, fences, leases = {}, {}, {}
for at = 1, #found, 2 do
  numbers[#numbers + 1] = found[at]
  fences[at], fences[at + 1] = found[at], ARGV[2]
  leases[at], leases[at + 1] = ends, found[at]
end
if #numbers == 0 then
  return {numbers, {}}
end
redis.call('HSET', KEYS[1] .. 'fence', unpack(fences))
redis.call('ZADD', KEYS[1] .. 'lease', unpack(leases))
return {numbers, redis.call('HMGET', KEYS[1] .. 'payload', unpack(numbers))}
"""
COMPLETE = b"""
local numbers, results = {}, {}
for at = 2, #ARGV, 2 do
  numbers[#numbers + 1] = ARGV[at]
end
local fences = redis.call('HMGET', KEYS[1] .. 'fence', unpack(numbers))
local held = {}
for place, number in ipairs(numbers) do
  if fences[place] == ARGV[1] then
    held[#held + 1] = number
    results[#results + 1] = number
    results[#results + 1] = ARGV[place * 2 + 1]
  end
end
redis.call('HDEL', KEYS[1] .. 'fence', unpack(held))
redis.call('ZREM', KEYS[1] .. 'lease', unpack(held))
redis.call('HSET', KEYS[1] .. 'result', unpack(results))
redis.call('HINCRBY', KEYS[1] .. 'counts', 'done', #held)
return #held
"""

Row = tuple[bytes, bytes]


class RawScripts:
    """One connection, and columns under a prefix of its own."""

    def __init__(self, client: Any, prefix: str, clock: Clock) -> None:
        self._client = client
        self._prefix = prefix
        self._clock = clock
        for text in (SUBMIT, CLAIM, COMPLETE):
            client.script_load(text)

    def close(self) -> None:
        self.empty()
        self._client.close()

    def empty(self) -> None:
        columns = ("seq", "ids", "ready", "payload", "fence", "lease", "result", "counts")
        self._client.unlink(*(self._prefix + column for column in columns))

    # Submitting.

    def rows(self, count: int) -> list[Row]:
        """Return id and payload of new jobs."""
        new_id = self._clock.new_id
        return [(new_id(), b"[[%d],{}]" % number) for number in range(count)]

    def submit(self, rows: Sequence[Row], group: int = 1) -> None:
        """Store *rows*, *group* a script, one script after the other."""
        for start in range(0, len(rows), group):
            self._client.evalsha(*self._call(SUBMIT, _flat(rows[start : start + group])))

    def load(self, rows: Sequence[Row]) -> None:
        """Store *rows* in pipelines of scripts."""
        step = BATCH * PIPELINED
        for start in range(0, len(rows), step):
            pipeline = self._client.pipeline(transaction=False)
            for at in range(start, min(start + step, len(rows)), BATCH):
                part = rows[at : min(at + BATCH, start + step)]
                pipeline.execute_command("EVALSHA", *self._call(SUBMIT, _flat(part)))
            pipeline.execute()

    # Working.

    def drain(self, count: int) -> int:
        """Claim and complete up to *count* jobs; return how many there were."""
        done = 0
        while done < count:
            token = f"token {done}".encode()
            claim = self._call(CLAIM, [min(BATCH, count - done), token])
            numbers, _ = self._client.evalsha(*claim)
            if not numbers:
                break
            results = [word for number in numbers for word in (number, b"null")]
            done += self._client.evalsha(*self._call(COMPLETE, [token, *results]))
        return done

    def _call(self, text: bytes, words: Sequence[Any]) -> list[Any]:
        return [hashlib.sha1(text, usedforsecurity=False).hexdigest(), 1, self._prefix, *words]


def _flat(rows: Sequence[Row]) -> list[bytes]:
    return [word for row in rows for word in row]
