"""Integer sets (isl)."""
