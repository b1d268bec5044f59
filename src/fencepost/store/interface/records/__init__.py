"""Facets of what a store keeps beside jobs, each with its requests and replies."""
