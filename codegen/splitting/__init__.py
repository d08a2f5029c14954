"""Nests cut into nests: by conditions, by blocks of long sums, into stages."""
