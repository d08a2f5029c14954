"""What is timed: one file for each family of operators; the list is in `catalogue.py`."""
