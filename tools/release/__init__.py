"""Builds a release in ``dist/`` and checks it: ``make release``.

The sdist is made from the tree, and the wheel from the sdist, without Node.js. Then their contents
are looked at, and the wheel is installed into empty environments, without extras and with each of
them, where small programs (``probes/``) use it. Nothing is uploaded.
"""
