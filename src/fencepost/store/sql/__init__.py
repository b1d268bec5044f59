"""What the engines share: how values are kept in tables, and the rules of keeping them."""
