"""The Redis store: jobs as documents, and scripts that the server runs as one."""
