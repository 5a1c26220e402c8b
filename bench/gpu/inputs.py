"""Sizes of this benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Numbers of GPUs, requests and streams."""

    decisions: int = 20_000
    repack_gpus: int = 1_000
    fleet: int = 16
    requests: int = 150
    """Per GPU, of one stream."""
    streams: int = 4
    """Of each mix and load; of the single GPU, four times as many."""
    optimum_requests: int = 60
    optimum_streams: int = 10
    topology_gpus: int = 10_000
    topology_queries: int = 2_000
    settle_seconds: int = 40
    """Of an agent, before it is measured at rest."""
    idle_seconds: int = 40


QUICK = Inputs(
    decisions=500,
    repack_gpus=100,
    fleet=4,
    requests=25,
    streams=1,
    optimum_requests=15,
    optimum_streams=1,
    topology_gpus=80,
    topology_queries=100,
    settle_seconds=1,
    idle_seconds=2,
)
