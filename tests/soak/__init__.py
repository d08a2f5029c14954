"""Everything at once, for as long as one likes: `python -m tests.soak --help`."""
