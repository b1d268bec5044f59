"""An app that takes orders."""
