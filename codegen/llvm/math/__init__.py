"""Elementary functions in LLVM IR."""
