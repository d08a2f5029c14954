"""Random programs with everything in them, as text that runs twice."""
