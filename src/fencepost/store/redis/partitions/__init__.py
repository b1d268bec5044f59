"""One app on several masters of a cluster: its queues, spread over partitions."""
