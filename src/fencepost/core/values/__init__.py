"""The small values of the contract: names, ids, times, durations, payloads."""
