"""Programs that work on the repository: the zoo's fetcher, generators of checked-in files."""
