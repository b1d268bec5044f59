"""Operations on tokens and sessions."""
