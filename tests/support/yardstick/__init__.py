"""The bound of a gradient a second time: enumerated point by point, its calculus from samples."""
