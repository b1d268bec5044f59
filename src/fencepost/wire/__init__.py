"""What travels over HTTP, in and out: one struct a shape, from which the documentation is made."""
