"""What the compiler makes of many small programs, as texts: `make replay` writes them here and at the
merge base and shows the difference, as tinygrad's process replay does. No copy of them is kept."""
