"""``fencepost move``."""
