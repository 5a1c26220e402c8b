"""Where a pod finds Services, in environment variables: as the kubelet tells it."""

from collections.abc import Iterable

from kilonova.local.nodes.process.services.objects import Service, ServicePort
from kilonova.local.nodes.process.services.routing import at_its_door

DOMAIN = "cluster.local"


def service_environment(
    services: Iterable[Service], namespace: str, *, links: bool = True, by_doors: bool = False
) -> dict[str, str]:
    """The variables of a pod in `namespace` for the Services that there are.

    The API's own Service is always told of; those of the pod's namespace where `links`
    (`spec.enableServiceLinks`) wants them, and one of them called `kubernetes` wins. With
    `by_doors` it is told of the doors of Services, since ClusterIPs lead nowhere.
    """
    told: dict[str, Service] = {}
    for service in services:
        if not service.has_address:
            continue
        name, home = service.metadata.name, service.metadata.namespace
        if (home, name) == ("default", "kubernetes"):
            told.setdefault(name, service)
        elif home == namespace and links:
            told[name] = service
    if by_doors:
        told = {name: at_its_door(service) for name, service in told.items()}
    return {name: value for service in told.values() for name, value in _variables(service).items()}


def dns_environment(namespace: str) -> dict[str, str]:
    """What makes the C library search the cluster's names, as a pod's resolv.conf does."""
    return {
        "LOCALDOMAIN": f"{namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}",
        "RES_OPTIONS": "ndots:5",
    }


def _variables(service: Service) -> dict[str, str]:
    prefix, host = _variable_name(service.metadata.name), service.spec.cluster_ip
    first = service.spec.ports[0]
    variables = {
        f"{prefix}_SERVICE_HOST": host,
        f"{prefix}_SERVICE_PORT": str(first.port),
    }
    for port in service.spec.ports:
        if port.name:
            variables[f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}"] = str(port.port)
    variables[f"{prefix}_PORT"] = _link(host, first)
    for port in service.spec.ports:
        link = f"{prefix}_PORT_{port.port}_{port.protocol}"
        variables |= {
            link: _link(host, port),
            f"{link}_PROTO": port.protocol.lower(),
            f"{link}_PORT": str(port.port),
            f"{link}_ADDR": host,
        }
    return variables


def _link(host: str, port: ServicePort) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{port.protocol.lower()}://{shown}:{port.port}"


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()
