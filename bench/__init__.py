"""Benchmarks: programs that print a table, with a peer measured in the same run.

`python -m bench` lists them, `python -m bench NAME --help` shows the inputs of one, `--json FILE`
writes its figures. Terms:
figure     one measured number with its unit
quantity   what is measured: a title, a unit, which direction is better, and the target
row        a quantity with our figure and, if there is one, the peer's
"""
