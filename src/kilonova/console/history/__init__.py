"""The history of series: a `ring` of fixed size for each, filled by the `sampler`.

It is kept in memory, and begins when the console starts.
"""
