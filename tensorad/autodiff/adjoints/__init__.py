"""Adjoints under construction: what each read contributes, gathered or scattered."""
