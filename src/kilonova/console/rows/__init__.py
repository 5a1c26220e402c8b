"""Rows: what the console shows of each object (`model`).

Computed by pure functions of API objects, which the commands use as well.
"""
