"""Programs that recur, use data types, and let data choose functions: once for Python, too."""
