"""Is the process alive, is it ready: named checks, shown as Kubernetes shows them.

`/livez` and `/healthz` run the checks of liveness, `/readyz` those and the ones of readiness.
Each answers `ok`, or lists the checks when one fails or `?verbose` asks; `?exclude=NAME`
leaves one out; `/readyz/NAME` runs one alone. Why a check fails is in the log and below its
own path only, since the list is often open to everybody.
"""

from collections.abc import Callable

from kilonova.kube.logging import get_logger
from kilonova.kube.metrics import Metrics
from kilonova.kube.transport import Reply, Request
from kilonova.kube.webserver import Endpoint, WebServer, text

Check = Callable[[], str | None]
"""None when all is well, else what is wrong. Must be quick; raising counts as a failure."""

log = get_logger(__name__)


class Health:
    """The checks of one process. Every list begins with `ping`, which always passes."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {"ping": lambda: None}
        self._ready: dict[str, Check] = {}

    def add_liveness(self, name: str, check: Check) -> None:
        """A check whose failure means: restart this process."""
        self._live[name] = check

    def add_readiness(self, name: str, check: Check) -> None:
        """A check whose failure means: send nothing here for now."""
        self._ready[name] = check

    def endpoints(self) -> dict[str, Endpoint]:
        """What to serve, by path."""
        result: dict[str, Endpoint] = {}
        for name in ("healthz", "livez", "readyz"):
            result[f"/{name}"] = self._all
            result[f"/{name}/"] = self._one
        return result

    async def _all(self, request: Request) -> Reply:
        name = request.path[1:]
        excluded = {value for key, value in request.query if key == "exclude"}
        lines: list[str] = []
        failed: list[str] = []
        checks = self._checks(name)
        for check_name, check in checks.items():
            if check_name in excluded:
                lines.append(f"[+]{check_name} excluded: ok")
            elif (problem := _problem(check)) is not None:
                failed.append(f"{check_name}: {problem}")
                lines.append(f"[-]{check_name} failed: reason withheld")
            else:
                lines.append(f"[+]{check_name} ok")
        if unknown := sorted(excluded - checks.keys()):
            quoted = ", ".join(f'"{item}"' for item in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            log.warning("health check failed", endpoint=name, failed=failed)
            return text(500, "\n".join([*lines, f"{name} check failed\n"]))
        if request.param("verbose") is None:
            return text(200, "ok")
        return text(200, "\n".join([*lines, f"{name} check passed\n"]))

    async def _one(self, request: Request) -> Reply:
        _, endpoint, name = request.path.split("/")
        check = self._checks(endpoint).get(name)
        if check is None:
            return text(404, "404 page not found\n")
        problem = _problem(check)
        return (
            text(200, "ok") if problem is None else text(500, f"internal server error: {problem}\n")
        )

    def _checks(self, endpoint: str) -> dict[str, Check]:
        return self._live | self._ready if endpoint == "readyz" else self._live


def health_server(
    health: Health, metrics: Metrics, *, host: str = "", port: int = 8081
) -> WebServer:
    """A server for `/healthz`, `/livez`, `/readyz` and `/metrics` and nothing else."""
    endpoints = health.endpoints() | {"/metrics": metrics_endpoint(metrics)}
    return WebServer("health", endpoints, host=host, port=port)


def metrics_endpoint(metrics: Metrics) -> Endpoint:
    """What Prometheus scrapes."""

    async def scrape(request: Request) -> Reply:
        body, content_type = metrics.render(request.headers.get("accept", ""))
        return Reply(200, body, {"content-type": content_type})

    return scrape


def _problem(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
