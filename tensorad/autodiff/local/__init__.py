"""Derivatives of one operation."""
