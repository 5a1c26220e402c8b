"""Faults of simulated nodes: annotations of the Node, injected by script or at random."""
