"""The measurements of the HTTP API, beside what the same server process does without it.

A server and a caller run in processes of their own, so that neither is measured with the other.
"""

NAMES = ("http-submit", "http-batch", "http-page", "http-dashboard", "http-dashboard-drawn")
"""What ``--only`` takes with ``--http``; here, because the modules that measure import a server."""
