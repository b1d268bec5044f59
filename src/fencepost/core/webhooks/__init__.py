"""Webhooks: where they may go, what is sent, how it is signed, and what an answer means."""
