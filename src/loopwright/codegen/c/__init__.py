"""C99 from lowered TensorIR: no memory allocation, no library but the C library's math functions."""
