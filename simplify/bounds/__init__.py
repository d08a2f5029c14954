"""Proofs that reads stay inside their tensors."""
