"""Loops and the memory hierarchy: streaming, prefetching, passes over rows."""
