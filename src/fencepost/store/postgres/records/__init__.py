"""All that is kept beside jobs: crons, events, tokens, workers; and moving to another store."""
