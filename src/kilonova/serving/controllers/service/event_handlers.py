"""Which services to reconcile after a change of another object."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from kilonova.api.meta import Metadata
from kilonova.api.serving import InferenceService
from kilonova.kube import ChangeWatch, Key, Watch
from kilonova.serving.caches import BY_INGRESS_HOST, Caches, list_service_keys
from kilonova.serving.ingress_hosts import IngressHost, get_ingress_host


class _Labelled(Protocol):
    @property
    def metadata(self) -> Metadata: ...


def list_watches(caches: Caches) -> list[Watch[Any] | ChangeWatch[Any]]:
    """The watches of the controller."""
    return [
        ChangeWatch(caches.services, _on_service),
        ChangeWatch(caches.services, partial(_on_ingress_host, caches)),
        Watch(caches.server_sets, _map_object),
        Watch(caches.deployments, _map_object),
        Watch(caches.pods, _map_object),
        Watch(caches.gateway_services, _map_object),
        Watch(caches.gateway_secrets, _map_object),
        Watch(caches.config_maps, _map_object),
        *(Watch(each, _map_object) for each in caches.others),
    ]


def _map_object(each: _Labelled) -> Iterator[Key]:
    return list_service_keys(each.metadata)


def _on_service(old: InferenceService | None, new: InferenceService | None) -> Iterable[Key]:
    """The service itself, unless only the autoscaler wrote its part of the status, as it does
    whenever the load changes."""
    known = new or old
    if known is None or (
        old is not None and new is not None and _get_relevant(old) == _get_relevant(new)
    ):
        return
    yield known.metadata.namespace, known.metadata.name


def _on_ingress_host(
    caches: Caches, old: InferenceService | None, new: InferenceService | None
) -> Iterator[Key]:
    """The services that ask for a host which another one now asks for, or no longer does."""
    claims = [_get_claim(each) for each in (old, new)]
    if claims[0] == claims[1]:
        return
    for host in dict.fromkeys(each[0] for each in claims if each is not None):
        for service in caches.services.store.by_index(BY_INGRESS_HOST, host):
            yield service.metadata.namespace, service.metadata.name


def _get_claim(service: InferenceService | None) -> tuple[IngressHost, str] | None:
    host = get_ingress_host(service) if service is not None else None
    return (host, service.metadata.uid) if service is not None and host is not None else None


def _get_relevant(service: InferenceService) -> object:
    known = service.metadata
    return (
        known.uid,
        known.generation,
        known.labels,
        known.annotations,
        known.deletion_timestamp,
        replace(service.status, scaling=()),
    )
