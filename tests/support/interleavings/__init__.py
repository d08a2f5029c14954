"""Native protocols in every order of threads: the LLVM IR that is compiled, run step by step."""
