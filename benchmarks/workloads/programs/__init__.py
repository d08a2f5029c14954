"""Workloads that are loops over data-dependent states."""
