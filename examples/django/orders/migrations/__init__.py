"""Migrations of the shop: none are of Fencepost."""
