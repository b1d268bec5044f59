"""The HTTP API: every route of ``routes.py``, as one ASGI application.

Any language submits, any language works, anyone whom a token allows may look.
"""

from fencepost.http.api import asgi

__all__ = ["asgi"]
