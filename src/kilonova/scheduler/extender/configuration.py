"""The configuration of kube-scheduler that sends every pod with GPUs to the extender."""

from typing import Any

from kilonova.catalog.mig import known_geometries
from kilonova.catalog.resource_names import GPU, mig_resource

HTTP_TIMEOUT = "5s"


def managed_resources() -> list[str]:
    """`nvidia.com/gpu` and every MIG profile of every known device, under each of its names.

    A pod that requests only resources outside this list would bypass the extender and be placed by
    resource counts alone.
    """
    profiles = {
        name
        for geometry in known_geometries()
        for name in (
            *(profile.name for profile in geometry.profiles),
            *(alias for alias, _ in geometry.aliases),
        )
    }
    return [GPU, *sorted({mig_resource(profile) for profile in profiles})]


def scheduler_configuration(
    url: str, kubeconfig: str, tls: dict[str, str] | None = None
) -> dict[str, Any]:
    """A complete KubeSchedulerConfiguration with the extender at a URL."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "leaderElection": {"leaderElect": True},
        "extenders": [extender_entry(url, tls)],
    }


def extender_entry(url: str, tls: dict[str, str] | None = None) -> dict[str, Any]:
    """The entry of `extenders` in a KubeSchedulerConfiguration.

    MIG instances are created on demand, so nodes need not advertise them: kube-scheduler ignores
    their counts. It does count GPUs, which is how it selects preemption victims.
    """
    entry: dict[str, Any] = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": HTTP_TIMEOUT,
        "enableHTTPS": tls is not None,
        "managedResources": [
            {"name": name, "ignoredByScheduler": name != GPU} for name in managed_resources()
        ],
    }
    return entry | ({"tlsConfig": tls} if tls is not None else {})
