"""What the routes do, one module a subject."""
