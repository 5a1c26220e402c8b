"""Which users may impersonate which."""

import pytest

from kilonova.kube.client.transport import Request
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.auth.authorization_filter import AuthorizationFilter
from kilonova.local.apiserver.auth.authorizer import AuthorizationAttributes, AuthorizationDecision
from kilonova.local.apiserver.auth.impersonation import join_impersonation_headers, requested_user
from kilonova.local.apiserver.auth.user import User
from kilonova.local.apiserver.endpoints.request_info import parse_request_info

PODS = "/api/v1/namespaces/shop/pods"
ROBOT = User(
    "system:serviceaccount:shop:robot",
    extra={"authentication.kubernetes.io/node-name": ("one",)},
)


class Allowing:
    """Allows exactly these: `verb resource name`, or `verb` for anything."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def authorize(self, user: User, action: AuthorizationAttributes) -> AuthorizationDecision:
        requested = f"{action.verb} {action.qualified_resource} {action.name}".strip()
        return AuthorizationDecision(allowed=bool({requested, action.verb} & set(self.allowed)))


def authorize_request(
    authorizer: Allowing, headers: dict[str, str], requester: User = ROBOT
) -> User:
    return AuthorizationFilter(authorizer).authorize_request(
        parse_request_info(Request("GET", PODS)), headers, requester
    )


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ({}, None),
        ({"impersonate-user": "bob"}, User("bob")),
        (
            {"impersonate-user": "bob", "impersonate-group": "a\nb,c", "impersonate-uid": "7"},
            User("bob", "7", ("a", "b,c")),
        ),
        (
            {"impersonate-user": "bob", "impersonate-extra-example.com%2fx": "1\n2"},
            User("bob", extra={"example.com/x": ("1", "2")}),
        ),
    ],
)
def test_impersonated_user_is_parsed_from_headers(
    headers: dict[str, str], user: User | None
) -> None:
    assert requested_user(headers) == user


def test_repeated_header_keeps_all_values() -> None:
    sent = [(b"impersonate-group", b"a"), (b"accept", b"x"), (b"impersonate-group", b"b")]
    assert join_impersonation_headers(sent) == {"impersonate-group": "a\nb"}


def test_groups_without_a_user_are_rejected() -> None:
    with pytest.raises(ApiError, match="without impersonating a user name") as rejection:
        requested_user({"impersonate-group": "team"})
    assert rejection.value.code == 400


@pytest.mark.parametrize(
    ("allowed", "headers", "groups"),
    [
        (["impersonate users bob"], {"user": "bob"}, ("system:authenticated",)),
        (
            ["impersonate"],
            {"user": "bob", "group": "team"},
            ("team", "system:authenticated"),
        ),
        (["impersonate"], {"user": "system:anonymous"}, ("system:unauthenticated",)),
        (
            ["impersonate serviceaccounts cook"],
            {"user": "system:serviceaccount:shop:cook"},
            ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"),
        ),
        (
            ["impersonate users system:node:one"],
            {"user": "system:node:one"},
            ("system:authenticated",),
        ),
        (
            ["impersonate-on:associated-node:list", "impersonate:associated-node nodes *"],
            {"user": "system:node:one"},
            ("system:nodes", "system:authenticated"),
        ),
        (
            ["impersonate-on:arbitrary-node:list", "impersonate:arbitrary-node nodes two"],
            {"user": "system:node:two"},
            ("system:nodes", "system:authenticated"),
        ),
        (
            ["impersonate-on:user-info:list pods", "impersonate:user-info"],
            {"user": "bob", "group": "team", "extra-example.com%2fx": "y"},
            ("team", "system:authenticated"),
        ),
    ],
)
def test_authorized_user_can_impersonate(
    allowed: list[str], headers: dict[str, str], groups: tuple[str, ...]
) -> None:
    sent = {f"impersonate-{name}": value for name, value in headers.items()}
    user = authorize_request(Allowing("list", *allowed), sent)
    assert (user.name, user.groups) == (headers["user"], groups)


@pytest.mark.parametrize(
    ("allowed", "headers"),
    [
        ([], {"user": "bob"}),
        (["impersonate users ann"], {"user": "bob"}),
        (["impersonate users bob"], {"user": "bob", "group": "team"}),
        (["impersonate users bob"], {"user": "bob", "uid": "7"}),
        (["impersonate users bob"], {"user": "bob", "extra-a": "b"}),
        (["impersonate users bob"], {"user": "system:serviceaccount:shop:bob"}),
        (["impersonate:user-info"], {"user": "bob"}),
        (["impersonate-on:user-info:get", "impersonate:user-info"], {"user": "bob"}),
        (
            ["impersonate-on:user-info:list", "impersonate:user-info"],
            {"user": "bob", "group": "system:masters"},
        ),
        (
            ["impersonate-on:user-info:list", "impersonate:user-info"],
            {"user": "bob", "extra-scopes": "all"},
        ),
        (
            ["impersonate-on:associated-node:list", "impersonate:associated-node nodes *"],
            {"user": "system:node:two"},
        ),
    ],
)
def test_unauthorized_user_is_rejected(allowed: list[str], headers: dict[str, str]) -> None:
    sent = {f"impersonate-{name}": value for name, value in headers.items()}
    with pytest.raises(ApiError) as rejection:
        authorize_request(Allowing("list", *allowed), sent)
    assert rejection.value.code == 403


def test_impersonation_uses_the_permissions_of_the_impersonated_user() -> None:
    with pytest.raises(ApiError, match='User "bob" cannot list resource "pods"'):
        authorize_request(Allowing("impersonate"), {"impersonate-user": "bob"})


def test_impersonating_masters_are_authorized_as_the_impersonated_user() -> None:
    root = User("root", groups=("system:masters",))
    assert authorize_request(Allowing(), {}, root) is root
    with pytest.raises(ApiError, match='User "bob" cannot list'):
        authorize_request(Allowing("impersonate"), {"impersonate-user": "bob"}, root)


def test_websocket_exec_requires_the_verb_create() -> None:
    info = parse_request_info(Request("GET", f"{PODS}/a/exec"))
    AuthorizationFilter(Allowing("get", "create")).authorize_request(info, {}, ROBOT)
    with pytest.raises(ApiError, match='cannot create resource "pods/exec"'):
        AuthorizationFilter(Allowing("get")).authorize_request(info, {}, ROBOT)
