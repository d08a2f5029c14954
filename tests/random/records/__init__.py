"""Random programs of records, branches by tags, loops and calls of definitions."""
