"""Kilonova runs AI workloads on GPU clusters, end to end.

Each package is a room with one subject; rooms meet through API objects, not imports.
"""

__version__ = "0.1.0"
