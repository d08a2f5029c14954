"""The reference semantics."""
