"""Rules of the gateway. Pure."""

from collections.abc import Iterator

from kilonova.api.serving import STATS_PORT, Gateway, InferenceServiceSpec, Limits
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import forbidden, invalid_value, required
from kilonova.kube.admission.syntax import check_dns_subdomain

MAX_REPLICAS = 1000
"""Of gateways; more are a mistake, and would take all that the cluster has."""


def validate_gateway(spec: InferenceServiceSpec, path: str) -> Iterator[FieldError]:
    """Errors of the gateway at a path."""
    gateway = spec.gateway
    yield from _validate_ports(spec, path)
    if gateway.replicas > MAX_REPLICAS:
        rule = f"must be no more than {MAX_REPLICAS}"
        yield invalid_value(f"{path}.replicas", gateway.replicas, rule)
    if gateway.ingress is not None:
        host = gateway.ingress.host
        if problem := check_dns_subdomain(host.removeprefix("*.")):
            yield invalid_value(f"{path}.ingress.host", host, problem)
    if gateway.static_config is not None:
        yield from _validate_static_config(spec, gateway)


def _validate_ports(spec: InferenceServiceSpec, path: str) -> Iterator[FieldError]:
    gateway = spec.gateway
    if not gateway.http_port and not gateway.grpc_port:
        yield required(f"{path}.httpPort", "set it, or grpcPort: clients need one of them")
    for field, port in (("httpPort", gateway.http_port), ("grpcPort", gateway.grpc_port)):
        if port == STATS_PORT:
            rule = "gateways serve their metrics and readiness there: choose another port"
            yield invalid_value(f"{path}.{field}", port, rule)
    if not gateway.http_port:
        for index, group in enumerate(spec.servers):
            if group.protocol != "V2":
                rule = f"spec.servers[{index}] speaks {group.protocol}, which is HTTP: set the port"
                yield required(f"{path}.httpPort", rule)


def _validate_static_config(spec: InferenceServiceSpec, gateway: Gateway) -> Iterator[FieldError]:
    """What the user's own configuration would have to do: to accept it here and leave it undone
    would open the gateway."""
    rule = "gateway.staticConfig replaces the whole configuration: do it there, and leave it out"
    if spec.auth is not None:
        yield forbidden("spec.auth", rule)
    if spec.limits != Limits():
        yield forbidden("spec.limits", rule)
    if gateway.tls is not None:
        yield forbidden("spec.gateway.tls", rule)
    if spec.routes:
        yield forbidden("spec.routes", rule)
