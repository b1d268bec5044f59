"""The reliability lab: suites that try to break the promises, and say what they saw."""
