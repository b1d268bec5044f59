"""SQL of the schema: tables in numbered files, each applied once; functions in a folder."""
