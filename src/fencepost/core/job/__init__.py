"""The job: its states, its policy, and every decision about it."""
