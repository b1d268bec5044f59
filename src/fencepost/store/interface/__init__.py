"""The contract of a store: its operations, with what they are asked and what they answer."""
