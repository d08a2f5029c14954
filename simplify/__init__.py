"""Zero elimination: integer sets, domains and the passes over them."""

if __name__ == "simplify":
    raise ImportError("import tensorad.simplify: the bare name would load every class twice")
