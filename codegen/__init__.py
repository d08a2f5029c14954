"""Code generation: loops, schedules and machine code."""

if __name__ == "codegen":
    raise ImportError("import tensorad.codegen: the bare name would load every class twice")
