"""What formulas have in common, flow through, and count."""
