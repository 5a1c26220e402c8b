"""What kube-scheduler must be told, so that it asks about every pod with GPUs."""

from typing import Any

from kilonova.scheduler.core.mig_parts import known_geometries
from kilonova.scheduler.core.snapshot import GPU, mig_resource

HTTP_TIMEOUT = "5s"


def managed_resources() -> list[str]:
    """`nvidia.com/gpu` and every MIG profile of every known device, under each of its names.

    A pod that asks only for a resource that is not in the list would pass by the extender, and be
    placed by counts alone.
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
    """A whole KubeSchedulerConfiguration with the extender at a URL."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "leaderElection": {"leaderElect": True},
        "extenders": [extender_entry(url, tls)],
    }


def extender_entry(url: str, tls: dict[str, str] | None = None) -> dict[str, Any]:
    """The entry of `extenders` in a KubeSchedulerConfiguration.

    MIG instances are made where they are needed, so nodes need not offer them beforehand:
    kube-scheduler leaves counting them to us. GPUs it counts, too: that tells it whom to push out.
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
