"""The fault at the N-th store call: for every N, before and after the call took effect."""
