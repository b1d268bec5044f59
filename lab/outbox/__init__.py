"""Death between any two steps of what concerns several partitions of a Redis store."""
