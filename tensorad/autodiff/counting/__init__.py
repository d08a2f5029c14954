"""What derivations of a gradient cost, counted, and which one is kept."""
