"""Where the load for a service goes. Pure."""

from kilonova.api.serving import InferenceService
from kilonova.component.failure import CommandFailed
from kilonova.serving.loadtest.targets.address import Address, parse_address
from kilonova.serving.loadtest.targets.options import Protocol

_PROTOCOLS: dict[str, Protocol] = {"V2": "v2-grpc", "OpenAI": "openai", "HTTP": "http"}
_PATHS: dict[Protocol, str] = {"openai": "/v1/chat/completions", "http": "/"}


def find_address(service: InferenceService, protocol: Protocol | None) -> tuple[Address, Protocol]:
    """The gateway of a service, and what is spoken to it: that of its first group."""
    known, status = service.metadata, service.status
    chosen = protocol or _PROTOCOLS[service.spec.servers[0].protocol]
    if chosen == "v2-grpc" and protocol is None and not status.grpc_address and status.url:
        chosen = "v2-http"
    if chosen == "v2-grpc":
        text = status.grpc_address
        scheme = "grpc" if service.spec.gateway.tls is None else "grpcs"
        text = f"{scheme}://{text}" if text else ""
    else:
        text = f"{status.url}{_PATHS.get(chosen, '')}" if status.url else ""
    if not text:
        port = "gRPC" if chosen == "v2-grpc" else "HTTP"
        raise CommandFailed(
            f"{known.namespace}/{known.name} has no address for {port} yet: `kilonova serve why "
            f"{known.name}` shows what it waits for"
        )
    return parse_address(text), chosen
