"""Operations that read figures: health, metrics, statistics, series and attention."""
