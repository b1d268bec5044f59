"""The names of every event, counter and log line, and the way they are counted and written."""
