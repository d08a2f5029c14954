"""Domains of reductions, solved: the loops that visit their points."""
