"""Programs whose gradients are counted against the bound; one subject a file."""
