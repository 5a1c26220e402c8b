"""The informer caches of the controllers and of the gateways' control plane."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from kilonova.api.grove import names as grove_names
from kilonova.api.meta import Metadata
from kilonova.api.serving import InferenceService, names
from kilonova.kube import NO_RUNTIME_METRICS, Client, Key, Reflector, Runnable, RuntimeMetrics
from kilonova.serving import resources
from kilonova.serving.resources import Pod, ServerSet, Service

BY_SERVICE = "service"
"""By the key of the InferenceService that an object is labelled with."""

_LABELLED = names.SERVICE


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches. Run `runnables` before any controller."""

    services: Reflector[InferenceService]
    server_sets: Reflector[ServerSet]
    """PodCliqueSets, or Deployments in the namespaced mode."""
    deployments: Reflector[ServerSet]
    """The Deployments of gateways."""
    pods: Reflector[Pod]
    gateway_services: Reflector[Service]

    @property
    def runnables(self) -> list[Runnable]:
        """All caches."""
        return [
            self.services,
            self.server_sets,
            self.deployments,
            self.pods,
            self.gateway_services,
        ]


def build_caches(client: Client, runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS) -> Caches:
    """Build the caches over a client, with the indexes that controllers use."""
    return Caches(
        services=Reflector(client, resources.INFERENCE_SERVICES, runtime_metrics=runtime_metrics),
        server_sets=Reflector(
            client,
            resources.POD_CLIQUE_SETS,
            label_selector=_LABELLED,
            indexes={BY_SERVICE: _index_by_service},
            runtime_metrics=runtime_metrics,
        ),
        deployments=Reflector(
            client,
            resources.DEPLOYMENTS,
            label_selector=f"{_LABELLED},{names.ROLE}=gateway",
            indexes={BY_SERVICE: _index_by_service},
            runtime_metrics=runtime_metrics,
        ),
        pods=Reflector(
            client,
            resources.PODS,
            label_selector=_LABELLED,
            indexes={BY_SERVICE: _index_by_service},
            runtime_metrics=runtime_metrics,
        ),
        gateway_services=Reflector(
            client,
            resources.SERVICES,
            label_selector=f"{_LABELLED},{grove_names.MANAGED_BY}={names.MANAGER}",
            indexes={BY_SERVICE: _index_by_service},
            runtime_metrics=runtime_metrics,
        ),
    )


def list_service_keys(metadata: Metadata) -> Iterator[Key]:
    """The key of the InferenceService that an object is labelled with."""
    name = metadata.labels.get(names.SERVICE)
    if name:
        yield metadata.namespace, name


class _Labelled(Protocol):
    metadata: Metadata


def _index_by_service(each: _Labelled) -> Iterator[Key]:
    return list_service_keys(each.metadata)
