"""Mistakes of the source that the tests must notice: `python -m tests.mutants`."""
