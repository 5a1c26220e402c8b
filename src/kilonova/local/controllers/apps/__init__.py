"""Workload controllers: ReplicaSet, Deployment, StatefulSet, DaemonSet, ReplicationController.

A **workload** is any of them; its pods are those that name it as their controller. A workload
**claims** objects by its selector: it **adopts** those without a controller, and **releases** those
it controls that no longer match. A **revision** is a past or present pod template of a workload:
Deployments keep them as ReplicaSets, StatefulSets and DaemonSets as ControllerRevisions.

Each controller is a package: pure modules decide (`desire` and its helpers), `controller.py` reads
caches, calls them, and writes. A controller waits until its caches show what it wrote
(`kube.controllers.expectations`) before it finishes a reconcile, so that the next decision is never
based on a state before its own last write. There is no other state in memory, and a crash loses
none.
"""

from kilonova.local.controllers.apps.factories import (
    daemon_set_controllers,
    deployment_controllers,
    replica_set_controllers,
    replication_controller_controllers,
    stateful_set_controllers,
)

__all__ = [
    "daemon_set_controllers",
    "deployment_controllers",
    "replica_set_controllers",
    "replication_controller_controllers",
    "stateful_set_controllers",
]
