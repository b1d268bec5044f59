"""``fencepost demo``."""
