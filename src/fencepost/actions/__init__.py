"""What a caller can ask for, written once for blocking and awaited callers."""
