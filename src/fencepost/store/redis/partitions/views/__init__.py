"""Looking at all partitions: lists, counts and overviews, put together."""
