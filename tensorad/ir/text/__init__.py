"""Expressions and tensors as text, and as pickles."""
