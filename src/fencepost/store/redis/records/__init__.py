"""All that is not a job: crons, events, tokens, workers, counts."""
