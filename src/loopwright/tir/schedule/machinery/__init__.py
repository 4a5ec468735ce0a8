"""What the primitives stand on: the program's state, random variables, the trace, and the questions
that several of them ask."""
