"""Jobs in PostgreSQL: for many workers on many machines."""
