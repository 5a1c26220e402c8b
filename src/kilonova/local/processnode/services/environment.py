"""Service environment variables of pods, as the kubelet sets them."""

from collections.abc import Iterable

from kilonova.local.processnode.services.objects import Service, ServicePort
from kilonova.local.processnode.services.proxy.service_routes import rewrite_to_loopback

DOMAIN = "cluster.local"


def build_service_environment(
    services: Iterable[Service], namespace: str, *, links: bool = True, via_loopback: bool = False
) -> dict[str, str]:
    """The variables of a pod in `namespace` for the existing Services.

    The `kubernetes` Service of `default` is always included; those of the pod's namespace if
    `links` (`spec.enableServiceLinks`), and a `kubernetes` among them takes precedence. With
    `via_loopback` the addresses are those of the service listeners, since ClusterIPs are not
    routed.
    """
    selected: dict[str, Service] = {}
    for service in services:
        if not service.has_cluster_ip:
            continue
        name, home = service.metadata.name, service.metadata.namespace
        if (home, name) == ("default", "kubernetes"):
            selected.setdefault(name, service)
        elif home == namespace and links:
            selected[name] = service
    if via_loopback:
        selected = {name: rewrite_to_loopback(service) for name, service in selected.items()}
    return {
        name: value
        for service in selected.values()
        for name, value in _build_variables(service).items()
    }


def build_dns_environment(namespace: str) -> dict[str, str]:
    """Variables that make the C library search the cluster's domains, as a pod's resolv.conf
    does.

    gRPC asks the C library, too: its own resolver drops the answers of a nameserver to which its
    socket was connected by the pod network, since they come from another address.
    """
    return {
        "LOCALDOMAIN": f"{namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}",
        "RES_OPTIONS": "ndots:5",
        "GRPC_DNS_RESOLVER": "native",
    }


def _build_variables(service: Service) -> dict[str, str]:
    prefix, host = _variable_name(service.metadata.name), service.spec.cluster_ip
    first = service.spec.ports[0]
    variables = {
        f"{prefix}_SERVICE_HOST": host,
        f"{prefix}_SERVICE_PORT": str(first.port),
    }
    for port in service.spec.ports:
        if port.name:
            variables[f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}"] = str(port.port)
    variables[f"{prefix}_PORT"] = _build_link(host, first)
    for port in service.spec.ports:
        link = f"{prefix}_PORT_{port.port}_{port.protocol}"
        variables |= {
            link: _build_link(host, port),
            f"{link}_PROTO": port.protocol.lower(),
            f"{link}_PORT": str(port.port),
            f"{link}_ADDR": host,
        }
    return variables


def _build_link(host: str, port: ServicePort) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{port.protocol.lower()}://{shown}:{port.port}"


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()
