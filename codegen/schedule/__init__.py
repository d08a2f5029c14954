"""The schedule of one nest: lanes, order, register tile, threads."""
