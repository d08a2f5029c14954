"""Calls, branches and loops of a program as nodes around its kernels."""
