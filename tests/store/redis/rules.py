"""The rights of each role, as the documentation states them."""

from __future__ import annotations

from pathlib import Path

import redis

PAGE = Path(__file__).parents[3] / "docs" / "redis.md"


def rules() -> dict[str, list[str]]:
    """Return the rules by the name of the user."""
    lines = (line.split() for line in PAGE.read_text().splitlines() if line.startswith("user "))
    return {name: words for _, name, *words in lines}


def admit(url: str, role: str, keys: str = "{fencepost}:*") -> str:
    """Make the user of a role, for *keys*, on the server of *url*; return the URL for it."""
    words = [word.replace("{fencepost}:*", keys) for word in rules()[role]]
    with redis.Redis.from_url(url) as client:
        client.execute_command("ACL", "SETUSER", role, "reset", *words)
    return url.replace("redis://", f"redis://{role}:SECRET@")
