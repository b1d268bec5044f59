"""Stores: one small seam, one package an engine. See ``interface`` for the contract."""
