"""The thread pool and the driver of kernels, as LLVM IR."""
