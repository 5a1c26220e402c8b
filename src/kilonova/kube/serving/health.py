"""Liveness and readiness checks, served in the format of Kubernetes.

`/livez` and `/healthz` run the liveness checks, `/readyz` those and the readiness checks. Each
answers `ok`, or lists the checks if one fails or `?verbose` is set; `?exclude=NAME` skips one;
`/readyz/NAME` runs one alone. The cause of a failure appears only in the log and under the check's
own path, since the list is often public.
"""

from collections.abc import Callable, Mapping

from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.routing import (
    RequestHandler,
    page_not_found,
    text_error,
    text_reply,
)

ENDPOINTS = ("healthz", "livez", "readyz")

HealthCheck = Callable[[], str | None]
"""Returns None if healthy, else the problem. Must be quick; an exception is a failure."""

log = get_logger(__name__)


class Health:
    """The checks of one process. Every list starts with `ping`, which always passes.

    With `readiness_in_healthz`, `/healthz` runs all checks, as kube-apiserver's does.
    """

    def __init__(self, *, readiness_in_healthz: bool = False) -> None:
        self._liveness_checks: dict[str, HealthCheck] = {"ping": lambda: None}
        self._readiness_checks: dict[str, HealthCheck] = {}
        self._readiness_endpoints = ("readyz", "healthz") if readiness_in_healthz else ("readyz",)

    def add_liveness_check(self, name: str, check: HealthCheck) -> None:
        """Add a check whose failure means that the process must be restarted."""
        self._liveness_checks[name] = check

    def add_readiness_check(self, name: str, check: HealthCheck) -> None:
        """Add a check whose failure means that the process must not receive requests."""
        self._readiness_checks[name] = check

    def routes(self) -> dict[str, RequestHandler]:
        """The request handlers, by path."""

        async def handle(request: Request) -> Reply:
            _, endpoint, *names = request.path.split("/")
            return self.check(request, endpoint, *names)

        return {path: handle for name in ENDPOINTS for path in (f"/{name}", f"/{name}/")}

    def check(self, request: Request, endpoint: str, name: str = "") -> Reply:
        """Run all checks of an endpoint, or one of them."""
        checks = self._liveness_checks
        if endpoint in self._readiness_endpoints:
            checks = checks | self._readiness_checks
        return _run_one(checks, name) if name else _run_all(checks, endpoint, request)


def _run_all(checks: Mapping[str, HealthCheck], endpoint: str, request: Request) -> Reply:
    excluded = {value for key, value in request.query if key == "exclude"}
    lines: list[str] = []
    failed: list[str] = []
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif (problem := _run_check(check)) is not None:
            failed.append(f"{name}: {problem}")
            lines.append(f"[-]{name} failed: reason withheld")
        else:
            lines.append(f"[+]{name} ok")
    if unknown := sorted(excluded - checks.keys()):
        quoted = ",".join(f'"{item}"' for item in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    if failed:
        log.warning("health check failed", endpoint=endpoint, failed=failed)
        return text_reply(500, "\n".join([*lines, f"{endpoint} check failed\n"]))
    if request.query_param("verbose") is None:
        return text_reply(200, "ok")
    return text_reply(200, "\n".join([*lines, f"{endpoint} check passed\n"]))


def _run_one(checks: Mapping[str, HealthCheck], name: str) -> Reply:
    check = checks.get(name)
    if check is None:
        return page_not_found()
    problem = _run_check(check)
    if problem is None:
        return text_reply(200, "ok")
    return text_error(500, f"internal server error: {problem}")


def _run_check(check: HealthCheck) -> str | None:
    try:
        return check()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
