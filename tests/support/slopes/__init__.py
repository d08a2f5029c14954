"""Derivatives of scalar functions in closed form."""
