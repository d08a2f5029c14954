"""Zero elimination: a body visits only its nonzero points."""
