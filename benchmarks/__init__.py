"""Timings beside other libraries; run `python -m benchmarks layers`."""
