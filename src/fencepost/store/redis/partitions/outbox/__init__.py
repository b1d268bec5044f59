"""Messages between partitions: entries of outboxes, mirrors of jobs, and their delivery."""
