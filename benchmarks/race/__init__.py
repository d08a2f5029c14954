"""Workloads beside their peers."""
