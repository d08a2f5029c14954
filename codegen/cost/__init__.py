"""What operations, memory and threads cost, about."""
