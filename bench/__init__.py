"""Benchmarks: programs that print a table, with the peer measured in the same run.

`python -m bench` lists them, `python -m bench NAME --help` shows the inputs of one,
`--json FILE` keeps its figures. Words used here:

figure     one number that was measured, with its unit
quantity   what is measured: a title, a unit, which way is better, and what is aimed at
row        a quantity with our figure and, where there is one, the peer's
"""
