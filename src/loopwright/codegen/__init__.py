"""Code generators: LLVM and C, and the calling conventions they share."""
