"""Nodes of the embedded cluster: machines that are only played.

A *fleet* describes them, in groups, from a short YAML file. *Simulated nodes* register
themselves, keep their Leases, and take pods through their lives: start after a delay, become
ready, fail now and then, go when deleted. They need nothing but a client, so they run on any
Kubernetes. All that they know is in the API: a new process goes on where the last one stopped.
"""

from kilonova.local.nodes.fleet import NO_NODES, Fleet
from kilonova.local.nodes.fleetfile import FleetError, read_fleet
from kilonova.local.nodes.fleets import fleet_called, small_fleet
from kilonova.local.nodes.kubelet import SimulatedKubelet
from kilonova.local.nodes.sim import SimulatedNodes

__all__ = [
    "NO_NODES",
    "Fleet",
    "FleetError",
    "SimulatedKubelet",
    "SimulatedNodes",
    "fleet_called",
    "read_fleet",
    "small_fleet",
]
