"""Sets of pods: ReplicaSets, Deployments, StatefulSets, DaemonSets, ReplicationControllers.

A **set** is any of them; its pods are those that name it as their controller. A set **claims**
what its selector finds: it **adopts** what nobody controls, and **releases** what it controls and
its selector finds no longer. A **revision** is a past or present pod template of a set: Deployments
keep them as ReplicaSets, StatefulSets and DaemonSets as ControllerRevisions.

Each controller is a package: pure modules decide (`desire` and its parts), `controller.py` reads
caches, asks, and writes. A controller waits until its caches show what it wrote (`echo.py`) before
it is done with a set, so that the next decision never rests on a state before its own last one;
that is all the memory there is, and a crash loses none of it.
"""

from kilonova.local.controllers.apps.build import (
    daemon_set_parts,
    deployment_parts,
    replica_set_parts,
    replication_controller_parts,
    stateful_set_parts,
)

__all__ = [
    "daemon_set_parts",
    "deployment_parts",
    "replica_set_parts",
    "replication_controller_parts",
    "stateful_set_parts",
]
