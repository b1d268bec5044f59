"""The contract of a store: its operations, with their requests and replies."""
