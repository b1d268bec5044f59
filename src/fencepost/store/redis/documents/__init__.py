"""Jobs as documents: how one is written, where it is found, and how changes are committed."""
