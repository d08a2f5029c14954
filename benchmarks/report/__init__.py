"""Figures as records, tables, pictures and a page."""
