"""Rules of texts that become names of objects, or part of the configuration of Envoy. Pure.

Each rule has the path, the text and the check. A text that is empty is not set.
"""

from collections.abc import Callable, Iterator

from kilonova.api.serving import Auth, Gateway, InferenceServiceSpec, ModelRepository, Route
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import invalid_value
from kilonova.kube.admission.syntax import check_dns_subdomain
from kilonova.serving.admission.syntax import (
    check_endpoint,
    check_header_name,
    check_jwks_uri,
    check_key_header,
    check_path,
    check_printable,
    check_prometheus_url,
    check_sub_path,
)

Rule = tuple[str, str, Callable[[str], str | None]]


def validate_texts(spec: InferenceServiceSpec) -> Iterator[FieldError]:
    """Errors of all texts of a spec."""
    for path, text, check in _list_rules(spec):
        if text and (problem := check(text)):
            yield invalid_value(path, text, problem)


def _list_rules(spec: InferenceServiceSpec) -> Iterator[Rule]:
    for number, route in enumerate(spec.routes):
        yield from _list_route_rules(route, f"spec.routes[{number}]")
    yield from _list_gateway_rules(spec.gateway, "spec.gateway")
    if spec.auth is not None:
        yield from _list_auth_rules(spec.auth, "spec.auth")
    if spec.limits.load is not None:
        yield "spec.limits.load.prometheus", spec.limits.load.prometheus, check_prometheus_url
    for number, limit in enumerate(spec.limits.clients):
        yield f"spec.limits.clients[{number}].client", limit.client, check_printable
    for number, group in enumerate(spec.servers):
        path = f"spec.servers[{number}]"
        if group.autoscaling is not None and group.autoscaling.metric is not None:
            url = group.autoscaling.metric.prometheus
            yield f"{path}.autoscaling.metric.prometheus", url, check_prometheus_url
        if group.model_repository is not None:
            yield from _list_repository_rules(group.model_repository, f"{path}.modelRepository")
        if group.model_placement is not None:
            for index, model in enumerate(group.model_placement.models):
                yield f"{path}.modelPlacement.models[{index}].name", model.name, check_printable


def _list_route_rules(route: Route, path: str) -> Iterator[Rule]:
    for number, model in enumerate(route.models):
        yield f"{path}.models[{number}]", model, check_printable
    for number, header in enumerate(route.headers):
        yield f"{path}.headers[{number}].name", header.name, check_header_name
        yield f"{path}.headers[{number}].value", header.value, check_printable


def _list_gateway_rules(gateway: Gateway, path: str) -> Iterator[Rule]:
    for number, key in enumerate(gateway.load_balancing.hash):
        if key.source in ("Header", "Cookie"):
            yield f"{path}.loadBalancing.hash[{number}].name", key.name, check_header_name
    yield f"{path}.healthCheck.path", gateway.health_check.path, check_path
    if gateway.tls is not None:
        yield f"{path}.tls.secret", gateway.tls.secret, check_dns_subdomain
        yield f"{path}.tls.clientCaSecret", gateway.tls.client_ca_secret, check_dns_subdomain
    if gateway.tracing is not None:
        yield f"{path}.tracing.endpoint", gateway.tracing.endpoint, check_endpoint
        yield f"{path}.tracing.httpEndpoint", gateway.tracing.http_endpoint, check_endpoint
    if gateway.static_config is not None:
        yield f"{path}.staticConfig.name", gateway.static_config.name, check_dns_subdomain


def _list_auth_rules(auth: Auth, path: str) -> Iterator[Rule]:
    if auth.api_keys is not None:
        yield f"{path}.apiKeys.secret", auth.api_keys.secret, check_dns_subdomain
        yield f"{path}.apiKeys.header", auth.api_keys.header, check_key_header
    for number, provider in enumerate(auth.jwt):
        where = f"{path}.jwt[{number}]"
        yield f"{where}.issuer", provider.issuer, check_printable
        yield f"{where}.clientClaim", provider.client_claim, check_printable
        yield f"{where}.jwksUri", provider.jwks_uri or "", check_jwks_uri
        if provider.jwks_secret is not None:
            yield f"{where}.jwksSecret.name", provider.jwks_secret.name, check_dns_subdomain
        for index, audience in enumerate(provider.audiences):
            yield f"{where}.audiences[{index}]", audience, check_printable


def _list_repository_rules(repository: ModelRepository, path: str) -> Iterator[Rule]:
    if (claim := repository.persistent_volume_claim) is not None:
        yield f"{path}.persistentVolumeClaim.claimName", claim.claim_name, check_dns_subdomain
        yield f"{path}.persistentVolumeClaim.subPath", claim.sub_path, check_sub_path
    if (store := repository.object_store) is not None and store.credentials is not None:
        yield f"{path}.objectStore.credentials.name", store.credentials.name, check_dns_subdomain
    if (cvmfs := repository.cvmfs) is not None:
        yield f"{path}.cvmfs.claimName", cvmfs.claim_name, check_dns_subdomain
