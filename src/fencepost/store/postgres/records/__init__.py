"""What a store keeps besides jobs: crons, events, tokens, workers; and moves between stores."""
