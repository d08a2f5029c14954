"""Scalar functions, one record each: value, derivative, machine code, cost, notation."""
