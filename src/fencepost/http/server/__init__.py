"""The server: its socket, its connections and their limits."""
