"""Kilonova runs AI workloads on GPU clusters, end to end.

Each package is one component or library; components communicate through API objects, not imports.
"""

__version__ = "0.1.0"
