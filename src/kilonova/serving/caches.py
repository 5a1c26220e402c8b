"""The informer caches of the controllers and of the gateways' control plane."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kilonova.api.grove import names as grove_names
from kilonova.api.meta import Metadata
from kilonova.api.serving import InferenceService, names
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    Client,
    Key,
    Reflector,
    Resource,
    Runnable,
    RuntimeMetrics,
)
from kilonova.serving import resources
from kilonova.serving.ingress_hosts import IngressHost, get_ingress_host
from kilonova.serving.resources import ChildObject, DataObject, Pod, ServerSet, Service

BY_SERVICE = "service"
"""By the key of the InferenceService that an object is labelled with."""

BY_INGRESS_HOST = "ingress-host"
"""Services, by the `IngressHost` that they ask for."""

_LABELLED = names.SERVICE
_MANAGED = f"{_LABELLED},{grove_names.MANAGED_BY}={names.MANAGER}"


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
    """The Services of gateways, and the headless ones of groups."""
    gateway_secrets: Reflector[DataObject]
    """The Secrets of gateways: bootstrap and token."""
    config_maps: Reflector[DataObject]
    """ConfigMaps of dashboards."""
    others: tuple[Reflector[ChildObject], ...] = ()
    """Objects that are only compared with what they should be, one cache for each kind."""

    @property
    def runnables(self) -> list[Runnable]:
        """All caches."""
        return [
            self.services,
            self.server_sets,
            self.deployments,
            self.pods,
            self.gateway_services,
            self.gateway_secrets,
            self.config_maps,
            *self.others,
        ]


def build_caches(
    client: Client, runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS, namespace: str = ""
) -> Caches:
    """Build the caches over a client, with the indexes that controllers use.

    With a namespace they have the objects of that namespace alone.
    """
    factory = _CacheFactory(client, namespace or None, runtime_metrics)
    return Caches(
        services=Reflector(
            client,
            resources.INFERENCE_SERVICES,
            namespace or None,
            indexes={BY_INGRESS_HOST: _index_by_ingress_host},
            runtime_metrics=runtime_metrics,
        ),
        server_sets=factory.build(
            resources.DEPLOYMENTS if namespace else resources.POD_CLIQUE_SETS,
            f"{_LABELLED},{names.SERVER}",
        ),
        deployments=factory.build(resources.DEPLOYMENTS, f"{_LABELLED},{names.ROLE}=gateway"),
        pods=factory.build(resources.PODS, _LABELLED),
        gateway_services=factory.build(resources.SERVICES),
        gateway_secrets=factory.build(resources.SECRETS),
        config_maps=factory.build(resources.CONFIG_MAPS),
        others=(
            factory.build(resources.DISRUPTION_BUDGETS),
            factory.build(resources.INGRESSES),
            factory.build(resources.HORIZONTAL_POD_AUTOSCALERS),
            factory.build(resources.SCALED_OBJECTS, optional=True),
            factory.build(resources.SERVICE_MONITORS, optional=True),
            factory.build(resources.POD_MONITORS, optional=True),
        ),
    )


def list_service_keys(metadata: Metadata) -> Iterator[Key]:
    """The key of the InferenceService that an object is labelled with."""
    name = metadata.labels.get(names.SERVICE)
    if name:
        yield metadata.namespace, name


class _Labelled(Protocol):
    metadata: Metadata


T = TypeVar("T", bound=_Labelled)


@dataclass(frozen=True, slots=True)
class _CacheFactory:
    client: Client
    namespace: str | None
    runtime_metrics: RuntimeMetrics

    def build(
        self, resource: Resource[T], label_selector: str = _MANAGED, *, optional: bool = False
    ) -> Reflector[T]:
        return Reflector(
            self.client,
            resource,
            self.namespace,
            label_selector=label_selector,
            indexes={BY_SERVICE: _index_by_service},
            optional=optional,
            runtime_metrics=self.runtime_metrics,
        )


def _index_by_ingress_host(service: InferenceService) -> Iterator[IngressHost]:
    host = get_ingress_host(service)
    if host is not None:
        yield host


def _index_by_service(each: _Labelled) -> Iterator[Key]:
    return list_service_keys(each.metadata)
