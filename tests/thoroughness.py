"""How much of the suite is run: all that fits into ten minutes, or all there is.

``FENCEPOST_TEST_FULL=1 make test`` runs every combination of stores, servers and colours.
"""

from __future__ import annotations

import os

IS_FULL = bool(os.environ.get("FENCEPOST_TEST_FULL"))
