"""Loops for tests: built by hand, counted, described."""
