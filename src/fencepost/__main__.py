"""``python -m fencepost`` is the ``fencepost`` command."""

from fencepost.cli.main import main

if __name__ == "__main__":
    main()
