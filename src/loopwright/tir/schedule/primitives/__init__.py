"""The steps of a schedule, one primitive or family to a file: the methods of `Schedule`."""
