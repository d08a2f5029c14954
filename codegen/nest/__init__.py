"""Nests: the form of an operation that is scheduled."""
