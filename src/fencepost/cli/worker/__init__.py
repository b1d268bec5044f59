"""``fencepost worker``."""
