"""Sizes of this benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Numbers of nodes, of single pods with a GPU each, and of pods in a gang."""

    nodes: int = 1_000
    pods: int = 3_000
    gang: int = 1_000
    connections: int = 64


QUICK = Inputs(nodes=20, pods=60, gang=20, connections=16)
