"""How gateways authenticate their calls of the control plane, and what they say in them.

Written by `gateway.config`, read by `controlplane`. Every call names the service of the gateway,
and proves it with the token of that service:

- ADS: `authorization: Bearer TOKEN` (initial metadata in the bootstrap) and `node.cluster`;
- held requests (`ext_authz`): `TOKEN_HEADER` and `SERVICE_HEADER` in the initial metadata of the
  gRPC service, and the group in the context extensions of the route. Retries on `unavailable` let a
  held request outlive a restart of the control plane;
- requests that are answered for the whole service: both headers, overwritten in each request, as
  clients can send any.
"""

from kilonova.serving.gateway.model import ServiceKey

TOKEN_HEADER = "x-kilonova-gateway-token"  # noqa: S105 - a name
"""The token of the service, without a scheme: `authorization` is the client's own."""
SERVICE_HEADER = "x-kilonova-service"
"""NAMESPACE/NAME of the InferenceService."""
GROUP_EXTENSION = "group"
"""The key of `context_extensions` that names the group whose server a request is held for."""
MODEL_EXTENSION = "model"
"""The key of `context_extensions` that names the model that a server must have loaded; left out
where any server of the group will do."""


def format_service(key: ServiceKey) -> str:
    """The value of `SERVICE_HEADER`, and of `node.cluster`."""
    return f"{key[0]}/{key[1]}"


def parse_service(value: str) -> ServiceKey | None:
    """The key in a `SERVICE_HEADER` or a `node.cluster`, or None if it is none."""
    namespace, _, name = value.partition("/")
    return (namespace, name) if namespace and name and "/" not in name else None
