"""Who runs the workloads: tensorad, libraries, and loops written by hand."""
