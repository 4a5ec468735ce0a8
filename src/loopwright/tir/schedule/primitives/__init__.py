"""The steps of a schedule, one primitive or family to a file: the methods of `Schedule`.

Their docstrings show a function's body before and after a step, and name its parameters.
"""
