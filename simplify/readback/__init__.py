"""Reading gradients back: final formulas visit the points of their naive sums, with the factors."""
