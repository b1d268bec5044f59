"""Fencepost in Flask: an app that is an extension, with Flask's context around every attempt."""

from fencepost.flask.extension import Fencepost

__all__ = ["Fencepost"]
