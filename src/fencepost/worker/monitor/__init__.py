"""What a worker shows of itself: health, metrics, presence, a blocked event loop."""
