"""Several operations in one kernel."""
