"""What the server says of itself: versions, health, discovery, OpenAPI, metrics."""

import platform
from collections.abc import Callable

from kilonova import __version__
from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request
from kilonova.local import discovery
from kilonova.local.catalog import Catalog
from kilonova.local.errors import PageNotFound, method_not_allowed, no_such_path
from kilonova.local.health import Health
from kilonova.local.negotiation import wants_aggregated_discovery
from kilonova.local.openapi import OpenApi, v2
from kilonova.local.registry.objects import encode

KUBERNETES = "v1.36.3"
_JSON = "application/json"


class Documents:
    """Answers to paths that are about the server, made once per change of the kinds."""

    def __init__(
        self,
        catalog: Catalog,
        health: Health,
        metrics: Callable[[], bytes],
        published: dict[str, JsonObject],
    ) -> None:
        self._catalog = catalog
        self._health = health
        self._metrics = metrics
        self._published = published
        self._openapi = OpenApi()
        self._revision = -1
        self._kept: dict[str, tuple[bytes, str]] = {}

    def find(self, request: Request) -> Reply | None:
        """The document at the request's path, or None where a resource is meant."""
        path = request.path.rstrip("/") or "/"
        head = path.split("/", 2)[1]
        if head in ("api", "apis"):
            return self._discovery(request, path)
        answer = self._other(request, path, head)
        if answer is None:
            raise PageNotFound
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        return answer

    def _other(self, request: Request, path: str, head: str) -> Reply | None:
        if head in ("healthz", "livez", "readyz"):
            return self._probe(request, path, head)
        if head == "openapi":
            return self._open_api(request, path)
        if path == "/version":
            return Reply(200, encode(_version()), {"content-type": _JSON})
        if path == "/metrics":
            return Reply(200, self._metrics(), {"content-type": "text/plain; version=0.0.4"})
        if path == "/":
            paths = [
                "/api",
                "/apis",
                "/healthz",
                "/livez",
                "/metrics",
                "/openapi/v3",
                "/readyz",
                "/version",
            ]
            return Reply(200, encode({"paths": paths}), {"content-type": _JSON})
        if path in self._published:
            return Reply(200, encode(self._published[path]), {"content-type": _JSON})
        return None

    def _discovery(self, request: Request, path: str) -> Reply | None:
        depth = path.count("/")
        if depth > (2 if path.startswith("/api/") else 3):
            return None
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        self._refresh()
        aggregated = depth == 1 and wants_aggregated_discovery(request.headers.get("accept", "*/*"))
        key = f"{path} {aggregated}"
        if key not in self._kept:
            document = discovery.document(path, self._catalog.kinds(), aggregated=aggregated)
            if document is None:
                raise no_such_path() if self._serves_group(path) else PageNotFound
            body = encode(document)
            self._kept[key] = (body, discovery.etag(body))
        body, etag = self._kept[key]
        content_type = discovery.AGGREGATED if aggregated else _JSON
        headers = {"content-type": content_type}
        if aggregated:
            headers |= {"vary": "Accept", "etag": etag}
            if request.headers.get("if-none-match") == etag:
                return Reply(304, b"", headers)
        return Reply(200, body, headers)

    def _serves_group(self, path: str) -> bool:
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        return any(kind.group == group for kind in self._catalog.kinds())

    def _open_api(self, request: Request, path: str) -> Reply | None:
        if path == v2.PATH:
            body, content_type = v2.document(request.headers.get("accept", ""), KUBERNETES)
            return Reply(200, body, {"content-type": content_type, "vary": "Accept"})
        self._refresh()
        found = self._openapi.find(path)
        if found is None:
            return Reply(404)
        body, etag = found
        headers = {"content-type": _JSON, "etag": etag, "vary": "Accept"}
        if request.param("hash"):
            headers["cache-control"] = "public, max-age=31536000, immutable"
        if request.headers.get("if-none-match") == etag:
            return Reply(304, b"", headers)
        return Reply(200, body, headers)

    def _refresh(self) -> None:
        if self._revision != self._catalog.revision:
            self._revision = self._catalog.revision
            self._kept.clear()
            self._openapi.update(self._catalog.kinds())

    def _probe(self, request: Request, path: str, head: str) -> Reply:
        answer = self._health.answer(request, head, path.removeprefix(f"/{head}").strip("/"))
        if answer is None:
            raise PageNotFound
        return answer


def _version() -> JsonObject:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES}+kilonova.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": f"python{platform.python_version()}",
        "platform": f"{platform.system().lower()}/{machine}",
    }
