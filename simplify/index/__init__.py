"""Arithmetic on index expressions."""
