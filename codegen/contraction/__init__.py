"""Sums of products as blocked, packed and register-tiled loops."""
