"""NumPy's functions of whole arrays, `np.sum(X)`, by the operators."""
