"""Who runs the workloads: tensorad, libraries, and numba on loops written by hand."""
