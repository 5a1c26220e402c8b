"""The desired endpoints of a Service. Pure."""

from ipaddress import IPv6Address, ip_address

from kilonova.local.controllers.endpoints.objects import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
    Service,
    ServicePort,
    TargetReference,
)
from kilonova.local.objects.core import Pod

Ports = tuple[EndpointPort, ...]


def has_address(pod: Pod) -> bool:
    """Whether a pod has an address that may be published."""
    return not pod.is_terminal and bool(pod.status.pod_ip or pod.status.pod_ips)


def build_endpoint(pod: Pod, service: Service, family: str, zone: str | None) -> Endpoint | None:
    """A pod as an endpoint; None if it has no address of that family."""
    addresses = tuple(
        each.ip for each in pod.status.pod_ips if (_is_ipv6(each.ip)) == (family == "IPv6")
    )
    if not addresses:
        return None
    metadata, spec = pod.metadata, pod.spec
    serving, terminating = pod.is_ready, metadata.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    named = bool(spec.hostname) and spec.subdomain == service.metadata.name
    return Endpoint(
        addresses,
        EndpointConditions(ready, serving, terminating),
        TargetReference("Pod", metadata.namespace, metadata.name, metadata.uid),
        spec.node_name or None,
        zone or None,
        spec.hostname if named else None,
    )


def resolve_ports(service: Service, pod: Pod) -> Ports:
    """The Service's ports on this pod, without those that the pod lacks."""
    found: list[EndpointPort] = []
    for port in service.spec.ports:
        number = resolve_target_port(port, pod)
        if number is not None:
            found.append(EndpointPort(port.name, number, port.protocol, port.app_protocol))
    return tuple(found)


def resolve_target_port(port: ServicePort, pod: Pod) -> int | None:
    """The pod's port number for a port of the Service."""
    desired = port.target_port or port.port
    if isinstance(desired, int):
        return desired
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for offered in container.ports:
            if offered.name == desired and offered.protocol == port.protocol:
                return offered.container_port
    return None


def _is_ipv6(address: str) -> bool:
    return isinstance(ip_address(address), IPv6Address)
