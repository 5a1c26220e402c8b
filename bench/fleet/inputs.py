"""Sizes of this benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Numbers of nodes, agents, clusters and instances."""

    nodes: int = 10_000
    shown_nodes: int = 5_000
    agents: int = 108
    clusters: int = 100
    instances: int = 1_000
    """In each cluster."""
    swap_nodes: int = 64
    """Of the cluster in which nodes die; in two racks."""
    swaps: int = 5
    runs: int = 5
    takeovers: int = 8
    lease_seconds: int = 15


QUICK = Inputs(
    nodes=400,
    shown_nodes=200,
    agents=12,
    clusters=10,
    instances=100,
    swap_nodes=8,
    swaps=1,
    runs=2,
    takeovers=2,
    lease_seconds=3,
)
