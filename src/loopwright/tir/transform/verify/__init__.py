"""What must hold of a function, checked when it is compiled or when it runs."""
