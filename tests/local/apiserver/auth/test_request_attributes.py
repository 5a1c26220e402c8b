"""Authorization attributes of requests, as Kubernetes' RequestInfo parses them."""

import pytest

from kilonova.kube.client.transport import Request
from kilonova.local.apiserver.auth.authorization_filter import request_attributes
from kilonova.local.apiserver.auth.authorizer import AuthorizationAttributes, forbidden_error
from kilonova.local.apiserver.auth.user import User
from kilonova.local.apiserver.endpoints.request_info import parse_request_info

PODS = "/api/v1/namespaces/shop/pods"


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("GET /api/v1/pods", AuthorizationAttributes("list", "", "v1", "pods")),
        (f"GET {PODS}", AuthorizationAttributes("list", "", "v1", "pods", "", "shop")),
        (f"HEAD {PODS}/a", AuthorizationAttributes("get", "", "v1", "pods", "", "shop", "a")),
        (f"GET {PODS}/a/log", AuthorizationAttributes("get", "", "v1", "pods", "log", "shop", "a")),
        (
            f"POST {PODS}/a/proxy/x/y",
            AuthorizationAttributes("create", "", "v1", "pods", "proxy", "shop", "a"),
        ),
        (f"POST {PODS}", AuthorizationAttributes("create", "", "v1", "pods", "", "shop")),
        (f"PUT {PODS}/a", AuthorizationAttributes("update", "", "v1", "pods", "", "shop", "a")),
        (f"PATCH {PODS}/a", AuthorizationAttributes("patch", "", "v1", "pods", "", "shop", "a")),
        (f"DELETE {PODS}/a", AuthorizationAttributes("delete", "", "v1", "pods", "", "shop", "a")),
        (
            f"DELETE {PODS}",
            AuthorizationAttributes("deletecollection", "", "v1", "pods", "", "shop"),
        ),
        (f"OPTIONS {PODS}", AuthorizationAttributes("", "", "v1", "pods", "", "shop")),
        (f"GET {PODS}?watch=true", AuthorizationAttributes("watch", "", "v1", "pods", "", "shop")),
        (f"GET {PODS}?watch=0", AuthorizationAttributes("list", "", "v1", "pods", "", "shop")),
        (
            f"GET {PODS}/a?watch=true",
            AuthorizationAttributes("get", "", "v1", "pods", "", "shop", "a"),
        ),
        ("GET /api/v1/watch/pods", AuthorizationAttributes("watch", "", "v1", "pods")),
        ("GET /api/v1/namespaces", AuthorizationAttributes("list", "", "v1", "namespaces")),
        (
            "GET /api/v1/namespaces/x",
            AuthorizationAttributes("get", "", "v1", "namespaces", "", "x", "x"),
        ),
        (
            "PUT /api/v1/namespaces/x/finalize",
            AuthorizationAttributes("update", "", "v1", "namespaces", "finalize", "x", "x"),
        ),
        (
            "GET /apis/apps/v1/namespaces/x/deployments/d/scale",
            AuthorizationAttributes("get", "apps", "v1", "deployments", "scale", "x", "d"),
        ),
        (
            f"GET {PODS}?fieldSelector=metadata.name=one",
            AuthorizationAttributes("list", "", "v1", "pods", "", "shop", "one"),
        ),
        (
            f"GET {PODS}?fieldSelector=metadata.name=a/b",
            AuthorizationAttributes("list", "", "v1", "pods", "", "shop"),
        ),
        (
            f"GET {PODS}?fieldSelector=broken",
            AuthorizationAttributes("list", "", "v1", "pods", "", "shop"),
        ),
        (
            f"DELETE {PODS}?fieldSelector=metadata.name=one",
            AuthorizationAttributes("deletecollection", "", "v1", "pods", "", "shop"),
        ),
        (
            f"GET {PODS}/a%2Flog",
            AuthorizationAttributes("get", "", "v1", "pods", "", "shop", "a/log"),
        ),
        (
            f"GET {PODS.replace('/pods', '/%70ods')}/a",
            AuthorizationAttributes("get", "", "v1", "pods", "", "shop", "a"),
        ),
        ("GET /", AuthorizationAttributes("get", path="/")),
        ("GET //api/v1/pods", AuthorizationAttributes("get", path="//api/v1/pods")),
        ("GET /%68ealthz", AuthorizationAttributes("get", path="/healthz")),
        ("GET /api/v1/", AuthorizationAttributes("get", path="/api/v1/")),
        ("GET /apis/apps/v1", AuthorizationAttributes("get", path="/apis/apps/v1")),
        ("POST /logs/x", AuthorizationAttributes("post", path="/logs/x")),
    ],
)
def test_attributes_are_parsed_from_the_request_line(
    line: str, action: AuthorizationAttributes
) -> None:
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    pairs = [(query.partition("=")[0], query.partition("=")[2])] if query else []
    assert request_attributes(parse_request_info(Request(method, path, pairs))) == action


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            AuthorizationAttributes("list", "", "v1", "pods", "", "shop"),
            'pods is forbidden: User "bob" cannot list resource "pods" in API group "" '
            'in the namespace "shop"',
        ),
        (
            AuthorizationAttributes("get", "apps", "v1", "deployments", "scale", "", "d"),
            'deployments.apps "d" is forbidden: User "bob" cannot get resource '
            '"deployments/scale" in API group "apps" at the cluster scope',
        ),
        (
            AuthorizationAttributes("get", path="/<b>"),
            'forbidden: User "bob" cannot get path "/&lt;b&gt;"',
        ),
    ],
)
def test_rejection_describes_the_request(action: AuthorizationAttributes, message: str) -> None:
    assert forbidden_error(User("bob"), action).message == message
