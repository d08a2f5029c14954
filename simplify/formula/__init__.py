"""Formulas rewritten into cheaper ones."""
