"""Reads over all partitions: lists, counts and overviews, merged."""
