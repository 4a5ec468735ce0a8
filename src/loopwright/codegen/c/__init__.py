"""C99 from lowered TensorIR: no dynamic allocation, no library except the C math library."""
