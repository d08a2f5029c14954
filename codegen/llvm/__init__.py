"""Loops to LLVM IR."""
