"""What is made of many small programs, all at once, compared with digests in `tests/golden/snapshots`.

A change of which kernel is chosen, of a schedule, of a bound or of a text shows here, also where
results stay right. Run `pytest tests/snapshots --keep-texts DIR` before and after and compare the
folders (`diff -ru`) to read what changed, and `pytest tests/snapshots --update-golden` to accept it.
"""
