"""What exists of a service. Values only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kilonova.api.meta import Metadata
from kilonova.api.serving import InferenceService, names
from kilonova.kube import Resource
from kilonova.serving.gateway.model import ControlPlaneAddress
from kilonova.serving.resources import Pod, ServerSet, Service


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something of a service cannot be as its spec says: a CamelCase reason, and a sentence
    that names field, value and fix."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StaticConfig:
    """The configuration of Envoy that a service refers to."""

    text: str = ""
    problem: Problem | None = None
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object that carries the label of the service."""

    resource: Resource[Any]
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class ObservedService:
    """A service and all that exists of it."""

    service: InferenceService
    control_plane: ControlPlaneAddress
    token: str
    """The token of its gateways."""
    server_sets: Sequence[ServerSet] = ()

    pods: Sequence[Pod] = ()
    gateway_service: Service | None = None
    objects: Sequence[LiveObject] = ()
    """Everything that it owns."""
    static_config: StaticConfig | None = None
    host_owner: Metadata | None = None
    """The other service that has the host of the Ingress."""
    gateway_problems: Sequence[str] = ()
    """What is wrong with the configuration of the gateways."""
    is_gateway_closed: bool = False
    """Whether the gateways refuse all requests, because of that."""

    def find_host_problem(self) -> Problem | None:
        """Why there is no Ingress, although the spec asks for one."""
        ingress, owner = self.service.spec.gateway.ingress, self.host_owner
        if ingress is None or owner is None:
            return None
        text = (
            f"spec.gateway.ingress.host: {ingress.host} is the host of InferenceService "
            f"{owner.namespace}/{owner.name}, which is older: choose another host"
        )
        return Problem("HostTaken", text)

    def find_server_set(self, group: str) -> ServerSet | None:
        """The PodCliqueSet of a group."""
        return next(
            (each for each in self.server_sets if each.metadata.labels.get(names.SERVER) == group),
            None,
        )

    def list_entry_pods(self, group: str) -> Iterator[Pod]:
        """The pods of a group that get requests."""
        for each in self.pods:
            labels = each.metadata.labels
            if labels.get(names.SERVER) == group and labels.get(names.ENTRY) == "true":
                yield each

    def list_group_pods(self, group: str) -> Iterator[Pod]:
        """All pods of a group."""
        for each in self.pods:
            if each.metadata.labels.get(names.SERVER) == group:
                yield each

    def list_gateway_pods(self) -> Iterator[Pod]:
        """The pods of the gateways."""
        for each in self.pods:
            if each.metadata.labels.get(names.ROLE) == "gateway":
                yield each
