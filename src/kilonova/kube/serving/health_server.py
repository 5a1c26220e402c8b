"""The server of health checks and metrics, on a port of its own."""

from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.serving.health import Health
from kilonova.kube.serving.routing import RequestHandler
from kilonova.kube.serving.web_server import WebServer


def health_server(
    health: Health, metrics: Metrics, *, host: str = "", port: int = 8081
) -> WebServer:
    """A server for `/healthz`, `/livez`, `/readyz` and `/metrics` only."""
    endpoints = health.routes() | {"/metrics": metrics_handler(metrics)}
    return WebServer("health", endpoints, host=host, port=port)


def metrics_handler(metrics: Metrics) -> RequestHandler:
    """The handler that Prometheus scrapes."""

    async def scrape(request: Request) -> Reply:
        body, content_type = metrics.render(request.headers.get("accept", ""))
        return Reply(200, body, {"content-type": content_type})

    return scrape
