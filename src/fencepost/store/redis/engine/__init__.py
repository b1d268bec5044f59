"""The server: connections, scripts, errors and notifications."""
