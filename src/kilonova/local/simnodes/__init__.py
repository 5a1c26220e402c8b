"""Simulated nodes of the embedded cluster, like KWOK's.

A *fleet* describes them, in groups, from a short YAML file. *Simulated nodes* register themselves,
renew their Leases, and simulate their pods: start after a delay, become ready, fail at random,
terminate when deleted. Others may create and delete simulated Nodes as well (`lifecycle`). A
*fault* is an annotation of the Node. They need only a client, so they run against any Kubernetes.
All state is in the API: a new process continues where the last one stopped.
Entry point: `SimulatedNodes`.
"""

from kilonova.local.simnodes.fleet.file import FleetError, read_fleet
from kilonova.local.simnodes.fleet.model import NO_NODES, Fleet
from kilonova.local.simnodes.fleet.presets import load_fleet, small_fleet
from kilonova.local.simnodes.simulation import SimulatedNodes

__all__ = [
    "NO_NODES",
    "Fleet",
    "FleetError",
    "SimulatedNodes",
    "load_fleet",
    "read_fleet",
    "small_fleet",
]
