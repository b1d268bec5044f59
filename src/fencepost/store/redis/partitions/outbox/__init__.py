"""What partitions tell each other: entries of outboxes, mirrors of jobs, and who delivers."""
