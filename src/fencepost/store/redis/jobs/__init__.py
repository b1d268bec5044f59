"""Jobs as documents: stored, claimed, settled, changed and read."""
