"""The command `kilonova fleet`: shows and steers a fleet on its hub.

Typer functions with flags and help; the work is imported when one runs.
"""
