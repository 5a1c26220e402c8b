"""Non-resource paths: versions, health, discovery, OpenAPI, metrics."""

import platform
from collections.abc import Callable

from kilonova import __version__
from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.serving.health import ENDPOINTS, Health
from kilonova.kube.serving.routing import json_reply
from kilonova.local.apimachinery.errors import PageNotFound, method_not_allowed, path_not_found
from kilonova.local.apimachinery.version import KUBERNETES_VERSION
from kilonova.local.apiserver.endpoints import discovery
from kilonova.local.apiserver.endpoints.negotiation import wants_aggregated_discovery
from kilonova.local.apiserver.endpoints.request_info import RequestInfo
from kilonova.local.apiserver.openapi import OpenApiDocuments, v2
from kilonova.local.apiserver.registry.encoding import encode
from kilonova.local.apiserver.served_kinds import ServedKinds

_JSON = "application/json"


class NonResourceHandler:
    """Serves non-resource paths; documents are built once per change of the served kinds."""

    def __init__(
        self,
        served_kinds: ServedKinds,
        health: Health,
        metrics: Callable[[], bytes],
        published: dict[str, JsonObject],
    ) -> None:
        self._served_kinds = served_kinds
        self._health = health
        self._metrics = metrics
        self._static_documents = published
        self._openapi = OpenApiDocuments()
        self._revision = -1
        self._cached: dict[tuple[str | bool, ...], tuple[bytes, str]] = {}

    def handle(self, request: Request, info: RequestInfo) -> Reply:
        """The response for a non-resource path."""
        head = info.parts[0]
        if head in ("api", "apis"):
            return self._handle_discovery(request, info)
        reply = self._handle_other(request, info.path.rstrip("/") or "/", head)
        if reply is None:
            raise PageNotFound
        if info.verb not in ("get", "head"):
            raise method_not_allowed()
        return reply

    def _handle_other(self, request: Request, path: str, head: str) -> Reply | None:
        if head in ENDPOINTS:
            return self._health.check(request, head, path.removeprefix(f"/{head}").strip("/"))
        if head == "openapi":
            return self._handle_openapi(request, path)
        if path == "/version":
            return json_reply(200, encode(_version_info()))
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
            return json_reply(200, encode({"paths": paths}))
        if path in self._static_documents:
            return json_reply(200, encode(self._static_documents[path]))
        return None

    def _handle_discovery(self, request: Request, info: RequestInfo) -> Reply:
        if info.verb not in ("get", "head"):
            raise method_not_allowed()
        self._refresh()
        aggregated = len(info.parts) == 1 and wants_aggregated_discovery(
            request.headers.get("accept", "*/*")
        )
        key = (*info.parts, aggregated)
        if key not in self._cached:
            document = discovery.discovery_document(
                info.parts, self._served_kinds.kinds(), aggregated=aggregated
            )
            if document is None:
                raise path_not_found() if self._serves_group(info) else PageNotFound
            body = encode(document)
            self._cached[key] = (body, discovery.compute_etag(body))
        body, etag = self._cached[key]
        content_type = discovery.AGGREGATED if aggregated else _JSON
        headers = {"content-type": content_type}
        if aggregated:
            headers |= {"vary": "Accept", "etag": etag}
            if request.headers.get("if-none-match") == etag:
                return Reply(304, b"", headers)
        return Reply(200, body, headers)

    def _serves_group(self, info: RequestInfo) -> bool:
        group = info.parts[1] if info.parts[0] == "apis" else ""
        return any(kind.group == group for kind in self._served_kinds.kinds())

    def _handle_openapi(self, request: Request, path: str) -> Reply | None:
        if path == v2.PATH:
            body, content_type = v2.openapi_v2_document(
                request.headers.get("accept", ""), KUBERNETES_VERSION
            )
            return Reply(200, body, {"content-type": content_type, "vary": "Accept"})
        self._refresh()
        found = self._openapi.find(path)
        if found is None:
            return Reply(404)
        body, etag = found
        headers = {"content-type": _JSON, "etag": etag, "vary": "Accept"}
        if request.query_param("hash"):
            headers["cache-control"] = "public, max-age=31536000, immutable"
        if request.headers.get("if-none-match") == etag:
            return Reply(304, b"", headers)
        return Reply(200, body, headers)

    def _refresh(self) -> None:
        if self._revision != self._served_kinds.revision:
            self._revision = self._served_kinds.revision
            self._cached.clear()
            self._openapi.update(self._served_kinds.kinds())


def _version_info() -> JsonObject:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES_VERSION}+kilonova.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": f"python{platform.python_version()}",
        "platform": f"{platform.system().lower()}/{machine}",
    }
