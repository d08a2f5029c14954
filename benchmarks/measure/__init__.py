"""Timing in turns, in processes of their own."""
