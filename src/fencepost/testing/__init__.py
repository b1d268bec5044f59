"""What a test of Fencepost, or of anything built on it, needs: a clock to drive, a store's exam."""
