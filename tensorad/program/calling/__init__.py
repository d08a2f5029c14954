"""Calls of functions with arrays: what tells them apart."""
