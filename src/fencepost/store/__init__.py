"""Stores: one small seam, one package an engine. See ``protocol`` for the contract."""
