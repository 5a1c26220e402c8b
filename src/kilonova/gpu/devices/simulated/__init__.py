"""Simulated GPUs that behave like hardware.

A **persona** (`personas`) is a machine of the catalog, such as eight H100; `machines` describes one
as a `NodeInventory`, also from what a Node publishes. `SimulatedBackend` (`backend`) is a backend
of such a machine: MIG changes take time and fail where the driver would refuse them, and
utilisation, memory, power and temperature follow the processes that are set on it. XIDs and losses
of devices are injected.
"""

from kilonova.gpu.devices.simulated.backend import INSTANT, MigDurations, SimulatedBackend
from kilonova.gpu.devices.simulated.gpu import ProcessLoad
from kilonova.gpu.devices.simulated.machines import build_machine, machine_from_topology
from kilonova.gpu.devices.simulated.personas import PERSONAS, Persona, UnknownPersona, find_persona

__all__ = [
    "INSTANT",
    "PERSONAS",
    "MigDurations",
    "Persona",
    "ProcessLoad",
    "SimulatedBackend",
    "UnknownPersona",
    "build_machine",
    "find_persona",
    "machine_from_topology",
]
