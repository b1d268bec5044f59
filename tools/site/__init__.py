"""Builds the documentation as a site: ``make docs``.

Its pages are those of ``docs/``, in the order of ``docs/nav.toml``, and the reference, which is
made from the code. A broken link, an unknown anchor or anything that a browser would fetch from
elsewhere fails the build.
"""
