"""Machines that search for faults: random graphs, hostile files and texts, random orders of passes.

    python -m tools.fuzz graphs --count 2000 --seed 0
    python -m tools.fuzz replay FILE

Each prints how many cases were right, wrong, refused (by message), crashed or hung. A seed gives
the same case in the same environment (graphs are computed as they grow); what fails is made small and saved
as a file that replays everywhere.
"""
