"""Indices from data, checked before the loops that use them."""
