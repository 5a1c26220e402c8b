"""An embedded cluster for fuzz tests.

A `FuzzedApi` has its own event loop, so that synchronous property tests can send requests. It
checks what must hold for every response: no internal error, and no change after a rejection.
"""

import asyncio
import base64
import copy
import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apiserver.auth import User
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from tests.local.apiserver.kinds.recorded_objects import manifests, served_kinds

FUZZ_USER = User("somebody", groups=("system:masters", "system:authenticated"))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GANGS = "/apis/fuzz.example/v1/namespaces/default/gangs"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ACCEPT_HEADERS = (
    "application/json",
    "application/yaml",
    TABLE,
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)

SPEC_SCHEMA: Any = {
    "type": "object",
    "required": ["mode"],
    "x-kubernetes-validations": [
        {"rule": "self.replicas < 100", "messageExpression": "'too many for ' + self.mode"},
        {"rule": "self.replicas >= oldSelf.replicas"},
    ],
    "properties": {
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "default": 1},
        "ratio": {"type": "number", "multipleOf": 0.5, "maximum": 10},
        "mode": {"type": "string", "pattern": "^([a-z]+)+$", "maxLength": 100},
        "at": {"type": "string", "format": "date-time"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "share": {"x-kubernetes-int-or-string": True},
        "members": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}
STATUS_SCHEMA: Any = {"type": "object", "properties": {"replicas": {"type": "integer"}}}


def definition(plural: str, kind: str, schema: Any, **version: Any) -> Any:
    served = {"name": "v1", "served": True, "storage": True, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.fuzz.example"},
        "spec": {
            "group": "fuzz.example",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


GANG_DEFINITION: Any = definition(
    "gangs",
    "Gang",
    {"type": "object", "properties": {"spec": SPEC_SCHEMA, "status": STATUS_SCHEMA}},
    subresources={
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    },
    additionalPrinterColumns=[
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
        {"name": "Since", "type": "date", "jsonPath": ".spec.at"},
    ],
    selectableFields=[{"jsonPath": ".spec.mode"}],
)
GANG: Any = {
    "apiVersion": "fuzz.example/v1",
    "kind": "Gang",
    "metadata": {"name": "gang", "namespace": "default", "labels": {"a": "b"}},
    "spec": {
        "replicas": 3,
        "ratio": 0.5,
        "mode": "tight",
        "at": "2026-01-01T00:00:00Z",
        "any": {"x": 1},
        "share": "50%",
        "members": [{"name": "a", "size": 1}, {"name": "b"}],
        "tags": ["a", "b"],
        "labels": {"k": "v"},
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "t"}},
    },
}


class FuzzedApi:
    """One cluster, called from outside its event loop."""

    def __init__(self, runner: asyncio.Runner, cluster: EmbeddedCluster) -> None:
        self._runner = runner
        self.cluster = cluster

    def send(
        self,
        method: str,
        path: str,
        body: bytes | Any = b"",
        content_type: str = "application/json",
        accept: str = "*/*",
        query: Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """The response to a request: it may be a rejection, but never an internal error."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": content_type, "accept": accept}
        before = self.cluster.store.revision
        reply = self._runner.run(self._send(Request(method, path, list(query), headers, data)))
        reported = (
            f"{method} {path} {query} {headers} {data[:300]}: {reply.status} {reply.body[:300]}"
        )
        assert b"see the server's log" not in reply.body, reported
        if reply.status >= 500:
            # As in Kubernetes: Go errors that it does not distinguish from its own failures.
            assert reply.status == 504 or "reason" not in json.loads(reply.body), reported
        if reply.status >= 400:
            assert self.cluster.store.revision == before, reported
        return reply

    async def _send(self, request: Request) -> Reply:
        response = await self.cluster.api.handle(request, FUZZ_USER)
        if isinstance(response, Reply):
            return response
        return Reply(response.status, await _read_start(response), response.headers)

    def remove(self, path: str) -> None:
        """Remove an object with all its finalizers; no controller does it here."""
        now = [("gracePeriodSeconds", "0")]
        self.send("DELETE", path, query=now)
        self.send("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        self.send("DELETE", path, query=now)
        if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
            namespace = json.loads(self.send("GET", path).body)
            self.send("PUT", f"{path}/finalize", {**namespace, "spec": {"finalizers": []}})
        assert self.send("GET", path).status == 404

    def check_usable(self, path: str) -> None:
        """An accepted object can be read, listed, printed, watched and patched."""
        collection, _, _ = path.rpartition("/")
        for accept in ACCEPT_HEADERS:
            assert self.send("GET", path, accept=accept).status == 200, accept
        for accept in (
            *ACCEPT_HEADERS[:3],
            ACCEPT_HEADERS[3].replace("Metadata;", "MetadataList;"),
        ):
            assert self.send("GET", collection, accept=accept).status == 200, accept
        watch = [("watch", "1"), ("resourceVersion", "0"), ("timeoutSeconds", "1")]
        for accept in (ACCEPT_HEADERS[0], TABLE):
            assert self.send("GET", collection, accept=accept, query=watch).status == 200, accept
        patch = {"metadata": {"annotations": {"touched": "yes"}}}
        reply = self.send("PATCH", path, patch, "application/merge-patch+json")
        assert reply.status == 200, reply.body


async def _read_start(response: StreamReply) -> bytes:
    """The first events of a watch."""
    chunks: Any = response.chunks
    received: list[bytes] = []
    try:
        async with asyncio.timeout(0.002):
            async for chunk in chunks:
                received.append(chunk)
    except TimeoutError:
        pass
    finally:
        await chunks.aclose()
    return b"".join(received)


@contextmanager
def start_fuzzed_api() -> Generator[FuzzedApi]:
    """A cluster with a custom kind, a pod, a deployment and a gang."""
    with asyncio.Runner() as runner:
        cluster = EmbeddedCluster(ClusterSettings(port=None, controllers=""))
        runner.run(cluster.start())
        fuzzed_api = FuzzedApi(runner, cluster)
        try:
            for path, obj in (
                (ACCOUNTS, {"metadata": {"name": "default"}}),
                (ACCOUNTS, {"metadata": {"name": "robot"}}),
                (DEFINITIONS, GANG_DEFINITION),
                (GANGS, GANG),
                (PODS, manifests()["Pod pod-small"]),
                (DEPLOYMENTS, manifests()["Deployment deployment"]),
            ):
                assert fuzzed_api.send("POST", path, obj).status == 201
            yield fuzzed_api
        finally:
            runner.run(cluster.stop())


def valid_objects() -> list[tuple[str, Any]]:
    """Collections, and a valid object for each."""
    kinds = served_kinds()
    found: list[tuple[str, Any]] = [
        (GANGS, _renamed(GANG)),
        (DEFINITIONS, definition("others", "Other", {"type": "object"})),
    ]
    for obj in manifests().values():
        kind = kinds[obj["apiVersion"], obj["kind"]]
        prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        where = f"{prefix}/namespaces/default" if kind.namespaced else prefix
        found.append((f"{where}/{kind.plural}", obj))
    return found


def _renamed(obj: Any) -> Any:
    other = copy.deepcopy(obj)
    other["metadata"]["name"] = "other"
    return other


def protobuf_bodies() -> list[bytes]:
    """Bodies that kubectl, kube-scheduler and kube-apiserver have written."""
    vectors = Path(__file__).parents[1] / "protobuf" / "vectors.json"
    return [base64.b64decode(each["body"]) for each in json.loads(vectors.read_text())]
