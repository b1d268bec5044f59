"""The command line: one small module a noun, each imported only when it is typed."""
