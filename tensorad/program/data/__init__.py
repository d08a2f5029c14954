"""Values of data types."""
