"""`python -m loopwright`: the command line."""

from .driver.cli import main

main()
