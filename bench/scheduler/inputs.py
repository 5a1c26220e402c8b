"""Sizes of this benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Numbers of nodes and pods."""

    nodes: int = 5_000
    many_nodes: int = 20_000
    singles: int = 10_000
    gang: int = 1_000
    reclaim_nodes: int = 500
    full_nodes: int = 10_000
    full_pods: int = 100_000
    shapes: int = 1_000
    runs: int = 5


QUICK = Inputs(
    nodes=200,
    many_nodes=400,
    singles=200,
    gang=100,
    reclaim_nodes=10,
    full_nodes=200,
    full_pods=1_000,
    shapes=20,
    runs=2,
)
