"""Which objects that are being deleted may go. Pure.

They have our finalizer, so that a deletion is known as such: an object that is only missing on the
hub is restored from the store.
"""

from collections.abc import Mapping

from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Deployment
from kilonova.fleet.documents import Observed
from kilonova.fleet.manager.hub import HubObject, ObjectId
from kilonova.fleet.planning import FleetPlan
from kilonova.kube.status import is_condition_true


def find_removable(
    objects: Mapping[ObjectId, HubObject],
    plan: FleetPlan,
    observed: Mapping[str, Observed],
) -> frozenset[ObjectId]:
    """The objects whose deletion has nothing left to wait for."""
    leaving = [key for key, each in objects.items() if each.metadata.deletion_timestamp]
    if not leaving:
        return frozenset()
    used = {
        (key.namespace, release)
        for key, each in objects.items()
        if isinstance(each, Deployment)
        for release in _list_releases(each)
    }
    return frozenset(
        key
        for key in leaving
        if (key.kind == "Release" and (key.namespace, key.name) not in used)
        or (key.kind == "Deployment" and not _is_running(key, plan, observed))
        or (key.kind == "Cluster" and _is_left(key.name, objects[key], plan, observed))
    )


def _list_releases(deployment: Deployment) -> set[str]:
    return {
        deployment.spec.release,
        *(each.release for each in deployment.status.clusters if each.desired or each.observed),
    }


def _is_running(key: ObjectId, plan: FleetPlan, observed: Mapping[str, Observed]) -> bool:
    """Whether a reachable cluster has it. The others delete it when they return."""
    return any(
        (each.namespace, each.name) == (key.namespace, key.name)
        for cluster, report in observed.items()
        if cluster in plan.clusters and plan.clusters[cluster].health == "Healthy"
        for each in report.deployments
    )


def _is_left(
    name: str, cluster: HubObject, plan: FleetPlan, observed: Mapping[str, Observed]
) -> bool:
    """Whether a cluster has no instances, or those that it has were replaced."""
    assert isinstance(cluster, Cluster)
    if plan.clusters[name].health == "Healthy":
        report = observed.get(name)
        return not any(each.replicas for each in ((report and report.deployments) or ())) and all(
            not each.replicas for each in plan.desired.get(name, ())
        )
    return all(
        is_condition_true(status.conditions, "Allocated")
        for status in plan.deployments.values()
        if any(each.cluster == name and each.desired for each in status.clusters)
    )
