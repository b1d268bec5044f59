"""The engine: undo, notification, and the containers that jobs are kept in."""
