"""Workloads as loops by hand, for numba; they are imported where they run, as numba is heavy."""
