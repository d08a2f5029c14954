"""Random cases for as long as one likes: `python -m tests.fuzz --help`."""
