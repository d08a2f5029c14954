"""Compiled programs: arguments, memory, machine code, calls."""
