"""What SQLite and PostgreSQL share: plans over the SQL of an engine, and the codec of columns."""
