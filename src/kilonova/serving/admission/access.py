"""Rules of who may use a service, and how much. Pure."""

from collections.abc import Iterator

from kilonova.api.serving import Auth, InferenceServiceSpec
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import forbidden, invalid_value, required

_MAX_BODY_BYTES = 1 << 40


def validate_access(spec: InferenceServiceSpec, path: str) -> Iterator[FieldError]:
    """Errors of `auth` and `limits` at the path of the spec."""
    auth, limits = spec.auth, spec.limits
    if auth is not None and not auth.jwt and auth.api_keys is None:
        # It looks as if requests were authenticated, and they are not.
        yield required(f"{path}.auth.apiKeys", "set it or jwt, or leave auth out")
    if auth is not None:
        yield from _validate_names(auth, f"{path}.auth")
    has_clients = auth is not None or _has_client_certificates(spec)
    if limits.clients and not has_clients:
        rule = "without auth clients have no names: set auth, or limits.requests for each address"
        yield forbidden(f"{path}.limits.clients", rule)
    if limits.max_body_bytes == 0:
        rule = "must be at least 1; leave it out for no limit"
        yield invalid_value(f"{path}.limits.maxBodyBytes", 0, rule)
    elif limits.max_body_bytes is not None and limits.max_body_bytes > _MAX_BODY_BYTES:
        rule = "must be no more than 1 TiB; leave it out for no limit"
        yield invalid_value(f"{path}.limits.maxBodyBytes", limits.max_body_bytes, rule)
    load = limits.load
    if load is not None and not (load.in_flight_per_replica or load.queue_time or load.query):
        yield required(
            f"{path}.limits.load.inFlightPerReplica", "set it, queueTime or query: what is high?"
        )


def _validate_names(auth: Auth, path: str) -> Iterator[FieldError]:
    """What has a default, and yet must not be empty."""
    if auth.api_keys is not None and not auth.api_keys.header:
        yield required(f"{path}.apiKeys.header", "name it, or leave it out for x-api-key")
    for number, provider in enumerate(auth.jwt):
        if not provider.client_claim:
            yield required(f"{path}.jwt[{number}].clientClaim", "name it, or leave it out for sub")


def _has_client_certificates(spec: InferenceServiceSpec) -> bool:
    return spec.gateway.tls is not None and bool(spec.gateway.tls.client_ca_secret)
