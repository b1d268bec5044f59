"""Statistics: what queues and types hold, and how jobs went of late."""
