"""Commands about instances: `kilonova fit` and `kilonova alloc`, also `kubectl fit` and `alloc`.

Typer functions with flags and help; the work is imported when one runs.
"""
