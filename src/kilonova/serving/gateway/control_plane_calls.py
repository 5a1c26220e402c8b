"""How gateways authenticate their calls of the control plane, and what they report in them.

Written by `gateway.config`, read by `controlplane`. Every call names the service of the gateway,
and proves it with the token of that service:

- ADS: `authorization: Bearer TOKEN` (initial metadata in the bootstrap) and `node.cluster`;
- held requests (`ext_authz`): `build_call_headers` in the initial metadata of the gRPC service, and
  the group in the context extensions of the route. Retries on `unavailable` let a held request
  outlive a restart of the control plane;
- the log of traced requests: `build_call_headers`, too;
- requests that are answered for the whole service: these headers, overwritten in each request, as
  clients can send any. A model server sees them when it answers because the control plane is away:
  so they have a token of their own, which gives no access to the configuration of a gateway.
"""

import hmac

from kilonova.serving.gateway.model import ServiceKey

TOKEN_HEADER = "x-kilonova-gateway-token"  # noqa: S105 - a name
"""The token of calls, without a scheme: `authorization` is the client's own."""
SERVICE_HEADER = "x-kilonova-service"
"""NAMESPACE/NAME of the InferenceService."""
GROUP_EXTENSION = "group"
"""The key of `context_extensions` that names the group whose server a request is held for."""
MODEL_EXTENSION = "model"
"""The key of `context_extensions` that names the model that a server must have loaded; left out
where any server of the group will do."""

LOG_NAME = "traced"
"""The name of the log of traced requests."""
TRACE_ID_TAG = "trace_id"
"""The custom tag of a logged request that is the id of its trace."""


def build_call_headers(key: ServiceKey, token: str) -> dict[str, str]:
    """The headers of all calls but ADS; `token` is that of the service."""
    return {TOKEN_HEADER: derive_call_token(token), SERVICE_HEADER: format_service(key)}


def derive_call_token(token: str) -> str:
    """The token of calls, of which that of the service cannot be learned."""
    return hmac.digest(token.encode(), b"calls of the control plane", "sha256").hex()


def format_service(key: ServiceKey) -> str:
    """The value of `SERVICE_HEADER`, and of `node.cluster`."""
    return f"{key[0]}/{key[1]}"


def parse_service(value: str) -> ServiceKey | None:
    """The key in a `SERVICE_HEADER` or a `node.cluster`, or None if it is none."""
    namespace, _, name = value.partition("/")
    return (namespace, name) if namespace and name and "/" not in name else None
