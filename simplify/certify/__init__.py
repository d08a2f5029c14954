"""Proofs that a plan visits each contribution exactly once."""
