"""Operations inside a caller's own transaction."""
