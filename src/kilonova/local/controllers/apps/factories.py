"""Builds the workload controllers."""

from collections.abc import Iterable

from kilonova.kube import Runnable
from kilonova.local.controllers.apps.daemonset.controller import DaemonSetController
from kilonova.local.controllers.apps.deployment.controller import DeploymentController
from kilonova.local.controllers.apps.objects import REPLICA_SETS, REPLICATION_CONTROLLERS
from kilonova.local.controllers.apps.replicaset.controller import ReplicaSetController
from kilonova.local.controllers.apps.statefulset.controller import StatefulSetController
from kilonova.local.controllers.context import ControllerContext


def replica_set_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """`replicaset-controller`."""
    return [ReplicaSetController(context, REPLICA_SETS, "replicaset-controller").controller()]


def replication_controller_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """`replicationcontroller-controller`."""
    name = "replication-controller"
    return [ReplicaSetController(context, REPLICATION_CONTROLLERS, name).controller()]


def deployment_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """`deployment-controller`."""
    return [DeploymentController(context).controller()]


def stateful_set_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """`statefulset-controller`."""
    return [StatefulSetController(context).controller()]


def daemon_set_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """`daemonset-controller`."""
    return [DaemonSetController(context).controller]
