"""The controllers of sets as parts of a cluster."""

from collections.abc import Iterable

from kilonova.kube import Part
from kilonova.local.controllers.apps.daemonset.controller import DaemonSetController
from kilonova.local.controllers.apps.deployment.controller import DeploymentController
from kilonova.local.controllers.apps.objects import REPLICA_SETS, REPLICATION_CONTROLLERS
from kilonova.local.controllers.apps.replicaset.controller import ReplicaSetController
from kilonova.local.controllers.apps.statefulset.controller import StatefulSetController
from kilonova.local.controllers.workshop import Workshop


def replica_set_parts(workshop: Workshop) -> Iterable[Part]:
    """`replicaset-controller`."""
    return [ReplicaSetController(workshop, REPLICA_SETS, "replicaset-controller").controller()]


def replication_controller_parts(workshop: Workshop) -> Iterable[Part]:
    """`replicationcontroller-controller`."""
    name = "replication-controller"
    return [ReplicaSetController(workshop, REPLICATION_CONTROLLERS, name).controller()]


def deployment_parts(workshop: Workshop) -> Iterable[Part]:
    """`deployment-controller`."""
    return [DeploymentController(workshop).controller()]


def stateful_set_parts(workshop: Workshop) -> Iterable[Part]:
    """`statefulset-controller`."""
    return [StatefulSetController(workshop).controller()]


def daemon_set_parts(workshop: Workshop) -> Iterable[Part]:
    """`daemonset-controller`."""
    return [DaemonSetController(workshop).controller]
