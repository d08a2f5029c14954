"""Tools that take functions with example arguments."""
