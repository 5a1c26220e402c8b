"""One parse of a request: what is authorized is what is executed."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kilonova.kube.client.transport import Reply, Request
from kilonova.local.apimachinery.errors import ApiError, PageNotFound
from kilonova.local.apiserver.auth import MASTERS, User
from kilonova.local.apiserver.auth.authorization_filter import request_attributes
from kilonova.local.apiserver.endpoints.query_options import parse_list_options
from kilonova.local.apiserver.endpoints.request_info import RequestInfo, parse_request_info
from kilonova.local.apiserver.endpoints.resource_target import resolve_target
from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.kinds.kind import Kind, KindStrategy
from kilonova.local.apiserver.registry.selection import entry_selector
from kilonova.local.apiserver.schema.node import Schema
from kilonova.local.apiserver.served_kinds import ServedKinds
from kilonova.local.cluster import EmbeddedCluster
from tests.local.embedded_cluster import run_cluster

POD = "/api/v1/namespaces/shop/pods/web"


def _custom(plural: str, *, namespaced: bool) -> Kind:
    return Kind(
        group="odd.example",
        version="v1",
        kind=plural.capitalize(),
        plural=plural,
        singular=plural,
        namespaced=namespaced,
        verbs=("get", "list", "delete"),
        load_schema=Schema,
        strategy=KindStrategy(),
        is_custom=True,
    )


SERVED = ServedKinds(builtin_kinds())
SERVED.install_crd_kinds(
    "odd", [_custom("watch", namespaced=False), _custom("namespaces", namespaced=True)]
)


def parse(method: str, url: str) -> RequestInfo:
    path, _, query = url.partition("?")
    pairs = [tuple(each.split("=", 1)) for each in query.split("&")] if query else []
    return parse_request_info(Request(method, path, pairs))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("path", "subpath"),
    [
        (f"{POD}/proxy", ""),
        (f"{POD}/proxy/", "/"),
        (f"{POD}/proxy//", "//"),
        (f"{POD}/proxy/a%2Fb//c/", "/a%2Fb//c/"),
        (f"{POD}/%70roxy/x", "/x"),
        ("/api/v1/%6eamespaces/shop/pods/web/proxy/x", "/x"),
        ("/api/v1/nodes/n/proxy/proxy/x", "/proxy/x"),
    ],
)
def test_proxied_path_is_what_follows_the_subresource_as_sent(path: str, subpath: str) -> None:
    info = parse("GET", path)
    assert info.is_proxy
    assert info.subpath == subpath
    assert request_attributes(info).qualified_resource in ("pods/proxy", "nodes/proxy")


@pytest.mark.parametrize(
    "path",
    [
        POD,
        f"{POD}/log/proxy",
        "/api/v1/namespaces/proxy",
        "/api/v1/proxy/nodes/n/x",
        "/apis/odd.example/v1/watch/x/proxy",
        "/proxy",
    ],
)
def test_other_paths_are_not_proxied(path: str) -> None:
    assert not parse("GET", path).is_proxy


def test_path_that_names_the_verb_is_not_served_as_another_verb() -> None:
    # Authorized as watching `x`; the object `x` of the resource `watch` must not be deleted by it.
    info = parse("DELETE", "/apis/odd.example/v1/watch/x")
    assert request_attributes(info).verb == "watch"
    with pytest.raises(PageNotFound):
        resolve_target(info, SERVED)


SEGMENTS = st.sampled_from(
    [
        *(".", "..", "%2e%2e", "api", "apis", "v1", "apps", "odd.example", "default", "a", "a%2Fb"),
        *("namespaces", "%6eamespaces", "pods", "nodes", "deployments", "watch", "proxy"),
        *("%70roxy", "status", "finalize", "scale", "%2F", "%zz", "healthz", "version"),
    ]
) | st.text(max_size=3)  # an empty one as well
PREFIXES = st.sampled_from(["", "/", "/api/v1/", "/apis/apps/v1/", "/apis/odd.example/v1/"])
QUERY = st.lists(
    st.tuples(
        st.sampled_from(["watch", "fieldSelector"]),
        st.sampled_from(["", "0", "true", "metadata.name=a", "metadata.name=a/b", "metadata.name"]),
    ),
    max_size=2,
)
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


@settings(max_examples=500, deadline=None)
@given(
    method=st.sampled_from(METHODS),
    path=st.builds(lambda start, rest: start + "/".join(rest), PREFIXES, st.lists(SEGMENTS)),
    query=QUERY,
)
@example("GET", "/api/v1/namespaces//namespaces/a", [])
@example("GET", "/apis/odd.example/v1/namespaces/default/namespaces/a", [])
@example("GET", "/api/v1/namespaces/a/status", [])
@example("DELETE", "/apis/odd.example/v1/watch/", [])
def test_any_request_is_executed_as_it_is_authorized(
    method: str, path: str, query: list[tuple[str, str]]
) -> None:
    info = parse_request_info(Request(method, path, query))
    action = request_attributes(info)
    assert action.verb == info.verb
    if not info.is_resource_request:
        assert action.path == info.path
        assert not info.is_proxy
        return
    assert action.path is None
    try:
        target = resolve_target(info, SERVED)
    except (ApiError, PageNotFound):
        return
    kind = target.kind
    assert (action.group, action.version, action.resource) == (
        kind.group,
        kind.version,
        kind.plural,
    )
    assert action.subresource == target.subresource
    is_collection = info.verb in ("list", "watch", "deletecollection")
    assert not (is_collection and target.name)
    assert action.name == (target.name or info.selected_name)
    if info.selected_name:
        assert info.verb in ("list", "watch")
        assert entry_selector(target, parse_list_options(query)).name == info.selected_name
    itself = target.name if kind.plural == "namespaces" and not target.namespace else ""
    assert action.namespace == (target.namespace or itself)
    assert path.endswith(target.subpath)


ROOT = User("root", groups=(MASTERS,))
MAPS = "/api/v1/namespaces/default/configmaps"


async def _read(cluster: EmbeddedCluster, request: Request, info: RequestInfo | None = None) -> Any:
    reply = await cluster.api.handle(request, ROOT, info)
    assert isinstance(reply, Reply)
    return reply.status, msgspec.json.decode(reply.body)


async def test_handler_executes_the_parsed_request_not_the_path() -> None:
    """The handler is given the parse of another path: the path itself is not read again."""
    async with run_cluster(controllers="") as cluster:
        body = msgspec.json.encode({"metadata": {"name": "one"}})
        elsewhere = Request("POST", "/nowhere", [], {"content-type": "application/json"}, body)
        status, found = await _read(cluster, elsewhere, parse("POST", MAPS))
        assert (status, found["metadata"]["namespace"]) == (201, "default")
        for info, expected in (
            (parse("GET", f"{MAPS}/one"), "ConfigMap"),
            (parse("GET", MAPS), "ConfigMapList"),
            (parse("DELETE", MAPS), "ConfigMapList"),
            (parse("GET", "/apis/apps/v1"), "APIResourceList"),
        ):
            method = "GET" if info.verb == "get" else "DELETE"
            status, found = await _read(cluster, Request(method, "/nowhere"), info)
            assert (status, found["kind"]) == (200, expected)


async def test_odd_paths_are_served_as_they_are_authorized() -> None:
    async with run_cluster(controllers="") as cluster:
        for path, kind in (
            (f"{MAPS}/", "ConfigMapList"),
            ("/%61pi/v1/namespaces/default/%63onfigmaps", "ConfigMapList"),
            ("/apis/", "APIGroupList"),
        ):
            status, found = await _read(cluster, Request("GET", path))
            assert (status, found["kind"]) == (200, kind)
        for path in ("/api/v1%2Fpods", "/api/v1/watch/pods", f"{MAPS}/a%2Fb"):
            assert (await _read(cluster, Request("GET", path)))[0] == 404
        for path in ("/apis/apps%2Fv1", "//api/v1/pods", "//api", "*"):
            reply = await cluster.api.handle(Request("GET", path), ROOT)
            assert isinstance(reply, Reply)
            assert (reply.status, reply.body) == (404, b"404 page not found\n")
