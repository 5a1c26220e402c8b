"""From requests to actions, as Kubernetes' RequestInfo has them."""

import pytest

from kilonova.kube.transport import Request
from kilonova.local.auth.actions import action_of
from kilonova.local.auth.authorizer import Action, refused
from kilonova.local.auth.user import User

PODS = "/api/v1/namespaces/shop/pods"


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("GET /api/v1/pods", Action("list", "", "v1", "pods")),
        (f"GET {PODS}", Action("list", "", "v1", "pods", "", "shop")),
        (f"HEAD {PODS}/a", Action("get", "", "v1", "pods", "", "shop", "a")),
        (f"GET {PODS}/a/log", Action("get", "", "v1", "pods", "log", "shop", "a")),
        (f"POST {PODS}/a/proxy/x/y", Action("create", "", "v1", "pods", "proxy", "shop", "a")),
        (f"POST {PODS}", Action("create", "", "v1", "pods", "", "shop")),
        (f"PUT {PODS}/a", Action("update", "", "v1", "pods", "", "shop", "a")),
        (f"PATCH {PODS}/a", Action("patch", "", "v1", "pods", "", "shop", "a")),
        (f"DELETE {PODS}/a", Action("delete", "", "v1", "pods", "", "shop", "a")),
        (f"DELETE {PODS}", Action("deletecollection", "", "v1", "pods", "", "shop")),
        (f"OPTIONS {PODS}", Action("", "", "v1", "pods", "", "shop")),
        (f"GET {PODS}?watch=true", Action("watch", "", "v1", "pods", "", "shop")),
        (f"GET {PODS}?watch=0", Action("list", "", "v1", "pods", "", "shop")),
        (f"GET {PODS}/a?watch=true", Action("get", "", "v1", "pods", "", "shop", "a")),
        ("GET /api/v1/watch/pods", Action("watch", "", "v1", "pods")),
        ("GET /api/v1/namespaces", Action("list", "", "v1", "namespaces")),
        ("GET /api/v1/namespaces/x", Action("get", "", "v1", "namespaces", "", "x", "x")),
        (
            "PUT /api/v1/namespaces/x/finalize",
            Action("update", "", "v1", "namespaces", "finalize", "x", "x"),
        ),
        (
            "GET /apis/apps/v1/namespaces/x/deployments/d/scale",
            Action("get", "apps", "v1", "deployments", "scale", "x", "d"),
        ),
        (
            f"GET {PODS}?fieldSelector=metadata.name=one",
            Action("list", "", "v1", "pods", "", "shop", "one"),
        ),
        (
            f"GET {PODS}?fieldSelector=metadata.name=a/b",
            Action("list", "", "v1", "pods", "", "shop"),
        ),
        (f"GET {PODS}?fieldSelector=broken", Action("list", "", "v1", "pods", "", "shop")),
        (
            f"DELETE {PODS}?fieldSelector=metadata.name=one",
            Action("deletecollection", "", "v1", "pods", "", "shop"),
        ),
        (f"GET {PODS}/a%2Flog", Action("get", "", "v1", "pods", "", "shop", "a/log")),
        ("GET /", Action("get", path="/")),
        ("GET /api/v1/", Action("get", path="/api/v1/")),
        ("GET /apis/apps/v1", Action("get", path="/apis/apps/v1")),
        ("POST /logs/x", Action("post", path="/logs/x")),
    ],
)
def test_a_request_is_judged_by_its_line(line: str, action: Action) -> None:
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    pairs = [(query.partition("=")[0], query.partition("=")[2])] if query else []
    assert action_of(Request(method, path, pairs)) == action


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            Action("list", "", "v1", "pods", "", "shop"),
            'pods is forbidden: User "bob" cannot list resource "pods" in API group "" '
            'in the namespace "shop"',
        ),
        (
            Action("get", "apps", "v1", "deployments", "scale", "", "d"),
            'deployments.apps "d" is forbidden: User "bob" cannot get resource '
            '"deployments/scale" in API group "apps" at the cluster scope',
        ),
        (Action("get", path="/<b>"), 'forbidden: User "bob" cannot get path "/&lt;b&gt;"'),
    ],
)
def test_a_refusal_says_what_was_asked(action: Action, message: str) -> None:
    assert refused(User("bob"), action).message == message
