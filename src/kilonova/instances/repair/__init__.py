"""Repair policies: what is done next about failed pods and nodes of an instance.

A policy is a pure function of what is observed, and of the time. It remembers nothing, and is asked
again after each change. `ladder` is the one that is built in; a package adds one under the
entry-point group `kilonova.repair`:

    [project.entry-points."kilonova.repair"]
    patient = "our_package:patient"

    def patient(state: RepairState) -> RepairDecision: ...
"""

from kilonova.instances.repair.policy import (
    BROKEN,
    CONDUCTOR,
    GROUP,
    MemberHealth,
    MemberState,
    Relocation,
    RepairDecision,
    RepairPolicy,
    RepairState,
)

__all__ = [
    "BROKEN",
    "CONDUCTOR",
    "GROUP",
    "MemberHealth",
    "MemberState",
    "Relocation",
    "RepairDecision",
    "RepairPolicy",
    "RepairState",
]
