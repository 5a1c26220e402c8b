"""What the gateways of a service are configured from: a pure function of its objects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kilonova.api.service_addresses import map_to_loopback
from kilonova.api.serving import InferenceService, ServerGroup, names
from kilonova.serving.gateway.model import (
    ControlPlaneAddress,
    Endpoint,
    EndpointState,
    GatewaySecrets,
    GatewayState,
)
from kilonova.serving.models.states import read_loaded
from kilonova.serving.resources import Pod, ServerSet

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ObservedService:
    """A service and its objects, as the caches have them."""

    service: InferenceService
    pods: Sequence[Pod] = ()
    """All pods of the service: servers and gateways."""
    server_sets: Sequence[ServerSet] = ()
    cluster_ip: str = ""
    """The address of the Service of the gateways."""
    overloaded: frozenset[str] = frozenset()

    def list_gateways(self) -> list[Pod]:
        """The pods of gateways."""
        return [each for each in self.pods if each.metadata.labels.get(names.ROLE) == "gateway"]


@dataclass(frozen=True, slots=True)
class GatewayAccess:
    """How gateways reach the control plane and prove what they are."""

    control_plane: ControlPlaneAddress
    token: str
    on_this_machine: bool = False
    """Whether the listeners bind the address of the Service, too."""


def build_gateway_state(
    observed: ObservedService, access: GatewayAccess, secrets: GatewaySecrets
) -> GatewayState:
    """The observed state that the gateways are configured from."""
    groups = observed.service.spec.servers
    endpoints = {group.name: _list_endpoints(group, observed.pods) for group in groups}
    loopback = map_to_loopback(observed.cluster_ip) if access.on_this_machine else None
    return GatewayState(
        endpoints=endpoints,
        control_plane=access.control_plane,
        token=access.token,
        secrets=secrets,
        gateways=max(1, sum(each.is_ready for each in observed.list_gateways())),
        overloaded=observed.overloaded,
        starting=frozenset(
            group.name
            for group in groups
            if not has_ready_endpoint(endpoints[group.name])
            and (scales_from_zero(observed, group) or count_desired(observed, group) > 0)
        ),
        listen_addresses=(loopback,) if loopback else (),
    )


def has_ready_endpoint(endpoints: Iterable[Endpoint]) -> bool:
    """Whether a request can be sent to any of them."""
    return any(each.state is EndpointState.READY for each in endpoints)


def scales_from_zero(observed: ObservedService, group: ServerGroup) -> bool:
    """Whether a group without a server gets one with the next request."""
    return (
        group.autoscaling is not None
        and group.autoscaling.min_replicas == 0
        and not observed.service.spec.paused
    )


def count_desired(observed: ObservedService, group: ServerGroup) -> int:
    """How many servers a group is to have, as the object of its servers says."""
    for each in observed.server_sets:
        if each.metadata.labels.get(names.SERVER) == group.name:
            return each.spec.replicas
    return 1 if group.replicas is None else group.replicas


def _list_endpoints(group: ServerGroup, pods: Iterable[Pod]) -> tuple[Endpoint, ...]:
    found = (_build_endpoint(group, pod) for pod in pods if _is_entry_pod(group, pod))
    return tuple(sorted((each for each in found if each is not None), key=lambda each: each.pod))


def _is_entry_pod(group: ServerGroup, pod: Pod) -> bool:
    labels = pod.metadata.labels
    return (
        labels.get(names.SERVER) == group.name
        and labels.get(names.ENTRY) == "true"
        and bool(pod.status.pod_ip)
        and pod.status.phase not in _ENDED
    )


def _build_endpoint(group: ServerGroup, pod: Pod) -> Endpoint | None:
    """The endpoint of a pod; None for one that is not ready yet, or no longer."""
    if pod.metadata.deletion_timestamp is not None:
        state = EndpointState.DRAINING
    elif pod.is_ready:
        state = EndpointState.READY
    else:
        return None
    return Endpoint(
        pod=pod.metadata.name,
        address=pod.status.pod_ip,
        http_port=group.ports.http,
        grpc_port=group.ports.grpc,
        metrics_port=group.ports.metrics,
        state=state,
        models=read_loaded(pod) if group.model_placement is not None else None,
    )
