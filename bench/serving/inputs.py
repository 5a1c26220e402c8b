"""The inputs of every family of rows, and a quick set of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Durations and counts. The targets are for these values."""

    rounds: int = 6
    """Times that each gateway is measured, in turn with the others."""
    load_seconds: int = 1
    """Of one measurement of a gateway."""
    kill_clients: int = 8
    kill_seconds: int = 6
    """Seconds of load after a server was killed; two before."""
    server_clients: int = 8
    server_seconds: int = 5
    step_seconds: int = 30
    """Seconds of the higher load; ten of the lower one before."""
    held_requests: int = 50
    """Requests that are sent at the same time to a service without servers."""
    settle_seconds: int = 15
    """Seconds before what is at rest is measured."""
    idle_seconds: int = 20
    is_quick: bool = False
    """Whether the replay has few settings."""


QUICK = Inputs(
    rounds=1,
    load_seconds=1,
    kill_seconds=2,
    server_seconds=1,
    step_seconds=12,
    held_requests=10,
    settle_seconds=1,
    idle_seconds=2,
    is_quick=True,
)
"""Runs in a minute or two; too short for figures to be quoted."""
