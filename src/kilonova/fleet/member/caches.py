"""The informer caches of the agent."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from kilonova.api.inference_engine import InferenceEngineDeployment, names
from kilonova.fleet.member import resources
from kilonova.fleet.member.resources import Instance, Node, Pod
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    ApiStatusError,
    Client,
    Key,
    KubeError,
    Reflector,
    Runnable,
    RuntimeMetrics,
)

BY_DEPLOYMENT = "deployment"
"""Instances by the key of their InferenceEngineDeployment."""


@dataclass(slots=True)
class ApiHealth:
    """Whether the caches are in sync with the API server."""

    _errors: dict[str, str] = field(default_factory=dict[str, str])

    def record(self, cache: str, error: KubeError | None) -> None:
        """Record that a cache lost the API server, or is in sync again (None)."""
        if error is None:
            self._errors.pop(cache, None)
        else:
            rejected = isinstance(error, ApiStatusError) and error.code in (401, 403)
            self._errors[cache] = "Authentication" if rejected else "Api"

    @property
    def reason(self) -> str:
        """Why the cluster cannot be observed; empty if it can."""
        return next(iter(self._errors.values()), "")


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches. Run `runnables` before the agent."""

    deployments: Reflector[InferenceEngineDeployment]
    """Those of the fleet."""
    instances: Reflector[Instance]
    nodes: Reflector[Node]
    pods: Reflector[Pod]
    health: ApiHealth

    @property
    def runnables(self) -> list[Runnable]:
        """All caches."""
        return [self.deployments, self.instances, self.nodes, self.pods]

    @property
    def has_synced(self) -> bool:
        """Whether all have been filled."""
        caches = (self.deployments, self.instances, self.nodes, self.pods)
        return all(each.has_synced for each in caches)


def build_caches(client: Client, runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS) -> Caches:
    """Build the caches over a client."""
    health = ApiHealth()
    return Caches(
        deployments=Reflector(
            client,
            resources.DEPLOYMENTS,
            label_selector=names.GLOBAL_DEPLOYMENT,
            on_watch_error=partial(health.record, "deployments"),
            runtime_metrics=runtime_metrics,
        ),
        instances=Reflector(
            client,
            resources.INSTANCES,
            label_selector=names.DEPLOYMENT,
            indexes={BY_DEPLOYMENT: _list_deployments},
            on_watch_error=partial(health.record, "instances"),
            runtime_metrics=runtime_metrics,
        ),
        nodes=Reflector(
            client,
            resources.NODES,
            on_watch_error=partial(health.record, "nodes"),
            runtime_metrics=runtime_metrics,
        ),
        pods=Reflector(
            client,
            resources.PODS,
            on_watch_error=partial(health.record, "pods"),
            runtime_metrics=runtime_metrics,
        ),
        health=health,
    )


def _list_deployments(instance: Instance) -> Iterator[Key]:
    name = instance.metadata.labels.get(names.DEPLOYMENT)
    if name:
        yield instance.metadata.namespace, name
