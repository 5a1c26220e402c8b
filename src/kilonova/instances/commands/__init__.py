"""Commands about instances: `kilonova instances`, `fit` and `alloc` (also `kubectl fit` and
`alloc`), `builds`, `tokenizers` and `engine`.

`placement` has `fit` and `alloc`. Typer functions with flags and help; the work is imported when
one runs.
"""
