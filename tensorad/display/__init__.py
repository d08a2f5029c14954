"""How tensors and loops show themselves in a notebook."""
