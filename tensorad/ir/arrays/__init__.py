"""Whole tensors as NumPy has arrays: arithmetic, broadcasting, constants."""
