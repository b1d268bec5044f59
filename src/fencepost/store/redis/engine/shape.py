"""The types of the keys that every store has, to tell them from another application's."""

from __future__ import annotations

from collections.abc import Mapping

SHAPES: Mapping[str, str] = {
    **dict.fromkeys(("job", "lease", "ids", "payload", "result", "policies"), "hash"),
    **dict.fromkeys(("lanes", "keys", "counts", "limits", "type_limits"), "hash"),
    **dict.fromkeys(("leases", "due", "ended", "dead", "lifetimes"), "zset"),
    **dict.fromkeys(("open", "pauses"), "set"),
    "seq": "string",
}

TYPES = b"""
local kinds = {}
for place, name in ipairs(ARGV) do
  kinds[place] = redis.call('TYPE', KEYS[1] .. name).ok
end
return kinds
"""
"""Returns the type of each key that is named."""


def strangers(found: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that are there, by name, and have a type that is not ours."""
    return {
        name: kind for name, kind in found.items() if kind != "none" and kind != SHAPES.get(name)
    }
