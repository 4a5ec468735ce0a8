"""LLVM code generation: text in, object bytes out, loaded through LLVM's ORC JIT."""
