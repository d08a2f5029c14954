"""The loop language: what it is, how it prints, what must hold, and rewrites of it."""
