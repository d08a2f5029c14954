"""Data types and function values: how they are declared, made, taken apart and applied."""
