"""What is measured, one subject a file."""
