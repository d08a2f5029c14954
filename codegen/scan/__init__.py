"""Scans and scatters."""
