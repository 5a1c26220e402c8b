"""What a Service's endpoints should be. Pure."""

from ipaddress import IPv6Address, ip_address

from kilonova.local.controllers.endpoints.objects import (
    Conditions,
    Endpoint,
    EndpointPort,
    Service,
    ServicePort,
    Target,
)
from kilonova.local.controllers.objects import Pod

Ports = tuple[EndpointPort, ...]


def is_listed(pod: Pod) -> bool:
    """Whether a member has an address to tell."""
    return not pod.ended and bool(pod.status.pod_ip or pod.status.pod_ips)


def endpoint_of(pod: Pod, service: Service, family: str, zone: str | None) -> Endpoint | None:
    """A pod as an endpoint; None if it has no address of that family."""
    addresses = tuple(
        each.ip for each in pod.status.pod_ips if (_is_ipv6(each.ip)) == (family == "IPv6")
    )
    if not addresses:
        return None
    known, spec = pod.metadata, pod.spec
    serving, terminating = pod.ready, known.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    named = bool(spec.hostname) and spec.subdomain == service.metadata.name
    return Endpoint(
        addresses,
        Conditions(ready, serving, terminating),
        Target("Pod", known.namespace, known.name, known.uid),
        spec.node_name or None,
        zone or None,
        spec.hostname if named else None,
    )


def ports_of(service: Service, pod: Pod) -> Ports:
    """The Service's ports on this pod; those that it has not are left out."""
    found: list[EndpointPort] = []
    for port in service.spec.ports:
        number = target_port(port, pod)
        if number is not None:
            found.append(EndpointPort(port.name, number, port.protocol, port.app_protocol))
    return tuple(found)


def target_port(port: ServicePort, pod: Pod) -> int | None:
    """Where the pod takes what is sent to a port of the Service."""
    wanted = port.target_port or port.port
    if isinstance(wanted, int):
        return wanted
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for offered in container.ports:
            if offered.name == wanted and offered.protocol == port.protocol:
                return offered.container_port
    return None


def _is_ipv6(address: str) -> bool:
    return isinstance(ip_address(address), IPv6Address)
