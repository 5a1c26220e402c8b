"""Which service has a host, where several ask for the same one. Pure.

An Ingress controller merges Ingresses of one host, and sends requests to either: so the host is
that of the oldest service, and the others have no Ingress until it is free.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kilonova.api.serving import InferenceService

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
"""The class of an Ingress before there was a field for it."""


@dataclass(frozen=True, slots=True)
class IngressHost:
    """A host of an Ingress controller."""

    host: str
    ingress_class: str


def get_ingress_host(service: InferenceService) -> IngressHost | None:
    """The host that a service asks for, if any."""
    ingress = service.spec.gateway.ingress
    if ingress is None:
        return None
    ingress_class = ingress.ingress_class_name or ingress.annotations.get(_CLASS_ANNOTATION, "")
    return IngressHost(ingress.host, ingress_class)


def select_host_owner(services: Iterable[InferenceService]) -> InferenceService | None:
    """The service that has a host, of all that ask for it: the oldest one, then by name. One that
    is being deleted has it until it is gone, and its Ingress with it."""
    return min(services, key=_get_age, default=None)


def _get_age(service: InferenceService) -> tuple[str, str, str]:
    known = service.metadata
    return known.creation_timestamp, known.name, known.namespace
