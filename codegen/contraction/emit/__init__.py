"""A contraction and its blocking to loops."""
