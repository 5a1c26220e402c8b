"""The border of an embedded cluster, for tests that throw things at it.

A `Border` has an event loop of its own, so that plain property tests can ask in their own time.
What must hold of every answer is checked here: no failure of ours, no change after a refusal.
"""

import asyncio
import base64
import copy
import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.auth import User
from kilonova.local.cluster import Cluster, Settings
from tests.local.kinds.recorded import manifests, served_kinds

SOMEBODY = User("somebody", groups=("system:masters", "system:authenticated"))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GANGS = "/apis/fuzz.example/v1/namespaces/default/gangs"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FORMS = (
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


class Border:
    """One cluster, asked from outside its event loop."""

    def __init__(self, runner: asyncio.Runner, cluster: Cluster) -> None:
        self._runner = runner
        self.cluster = cluster

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Any = b"",
        content_type: str = "application/json",
        accept: str = "*/*",
        query: Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """An answer that may be a refusal, but is never a failure of ours."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": content_type, "accept": accept}
        before = self.cluster.store.rv
        reply = self._runner.run(self._answered(Request(method, path, list(query), headers, data)))
        told = f"{method} {path} {query} {headers} {data[:300]}: {reply.status} {reply.body[:300]}"
        assert b"see the server's log" not in reply.body, told
        if reply.status >= 500:
            # Kubernetes' own: errors of Go that it does not tell from its own failures.
            assert reply.status == 504 or "reason" not in json.loads(reply.body), told
        if reply.status >= 400:
            assert self.cluster.store.rv == before, told
        return reply

    async def _answered(self, request: Request) -> Reply:
        answer = await self.cluster.api.handle(request, SOMEBODY)
        if isinstance(answer, Reply):
            return answer
        return Reply(answer.status, await _start_of(answer), answer.headers)

    def remove(self, path: str) -> None:
        """Take an object away, whatever holds it."""
        now = [("gracePeriodSeconds", "0")]
        self.ask("DELETE", path, query=now)
        self.ask("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        self.ask("DELETE", path, query=now)
        assert self.ask("GET", path).status == 404

    def check_usable(self, path: str) -> None:
        """What was accepted can be read, listed, shown, watched and patched."""
        collection, _, _ = path.rpartition("/")
        for accept in FORMS:
            assert self.ask("GET", path, accept=accept).status == 200, accept
        for accept in (*FORMS[:3], FORMS[3].replace("Metadata;", "MetadataList;")):
            assert self.ask("GET", collection, accept=accept).status == 200, accept
        watch = [("watch", "1"), ("resourceVersion", "0"), ("timeoutSeconds", "1")]
        for accept in (FORMS[0], TABLE):
            assert self.ask("GET", collection, accept=accept, query=watch).status == 200, accept
        patch = {"metadata": {"annotations": {"touched": "yes"}}}
        reply = self.ask("PATCH", path, patch, "application/merge-patch+json")
        assert reply.status == 200, reply.body


async def _start_of(answer: StreamReply) -> bytes:
    """What a watch says at once."""
    chunks: Any = answer.chunks
    said: list[bytes] = []
    try:
        async with asyncio.timeout(0.002):
            async for chunk in chunks:
                said.append(chunk)
    except TimeoutError:
        pass
    finally:
        await chunks.aclose()
    return b"".join(said)


@contextmanager
def open_border() -> Generator[Border]:
    """A cluster with a custom kind, a pod, a deployment and a gang."""
    with asyncio.Runner() as runner:
        cluster = Cluster(Settings(port=None, controllers=""))
        runner.run(cluster.start())
        border = Border(runner, cluster)
        try:
            for path, obj in (
                (ACCOUNTS, {"metadata": {"name": "default"}}),
                (ACCOUNTS, {"metadata": {"name": "robot"}}),
                (DEFINITIONS, GANG_DEFINITION),
                (GANGS, GANG),
                (PODS, manifests()["Pod pod-small"]),
                (DEPLOYMENTS, manifests()["Deployment deployment"]),
            ):
                assert border.ask("POST", path, obj).status == 201
            yield border
        finally:
            runner.run(cluster.stop())


def valid_objects() -> list[tuple[str, Any]]:
    """Collections, and an object that each accepts."""
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
