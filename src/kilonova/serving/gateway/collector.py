"""Where spans are sent: the addresses of a collector."""

from kilonova.api.serving import Tracing

_GRPC_PORT = 4317
_HTTP_PORT = 4318
_HTTP_PATH = "/v1/traces"


def parse_endpoint(endpoint: str, default_port: int = _GRPC_PORT) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, with or without a scheme or a port."""
    text = endpoint.rpartition("//")[2].rstrip("/")
    host, _, port = text.rpartition(":")
    if host and port.isdecimal():
        return host.strip("[]"), int(port)
    return text.strip("[]"), default_port


def format_grpc_target(tracing: Tracing) -> str:
    """The collector for OTLP over gRPC: `HOST:PORT`."""
    return _format(*parse_endpoint(tracing.endpoint))


def build_http_url(tracing: Tracing) -> str:
    """The URL for OTLP over HTTP."""
    if tracing.http_endpoint:
        address = parse_endpoint(tracing.http_endpoint, _HTTP_PORT)
    else:
        address = parse_endpoint(tracing.endpoint)[0], _HTTP_PORT
    return f"http://{_format(*address)}{_HTTP_PATH}"


def _format(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
