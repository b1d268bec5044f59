"""``fencepost bench``."""
