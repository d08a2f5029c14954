"""The machine that code is compiled for, and its object code."""
