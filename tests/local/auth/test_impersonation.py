"""Who may act as whom."""

import pytest

from kilonova.kube.transport import Request
from kilonova.local.auth.authorizer import Action, Verdict
from kilonova.local.auth.gate import Gate
from kilonova.local.auth.impersonation import joined, wanted_user
from kilonova.local.auth.user import User
from kilonova.local.errors import ApiError

PODS = "/api/v1/namespaces/shop/pods"
ROBOT = User(
    "system:serviceaccount:shop:robot",
    extra={"authentication.kubernetes.io/node-name": ("one",)},
)


class Allowing:
    """Allows just what it is told: `verb resource name`, or `verb` for anything."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def decide(self, user: User, action: Action) -> Verdict:
        asked = f"{action.verb} {action.whole_resource} {action.name}".strip()
        return Verdict(allowed=bool({asked, action.verb} & set(self.allowed)))


def admitted(authorizer: Allowing, headers: dict[str, str], who: User = ROBOT) -> User:
    return Gate(authorizer).admit(Request("GET", PODS, headers=headers), who)


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
def test_headers_say_whom(headers: dict[str, str], user: User | None) -> None:
    assert wanted_user(headers) == user


def test_a_header_sent_twice_keeps_both_values() -> None:
    sent = [(b"impersonate-group", b"a"), (b"accept", b"x"), (b"impersonate-group", b"b")]
    assert joined(sent) == {"impersonate-group": "a\nb"}


def test_groups_alone_are_no_user() -> None:
    with pytest.raises(ApiError, match="without impersonating a user name") as refusal:
        wanted_user({"impersonate-group": "team"})
    assert refusal.value.code == 400


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
def test_who_may_becomes_another(
    allowed: list[str], headers: dict[str, str], groups: tuple[str, ...]
) -> None:
    sent = {f"impersonate-{name}": value for name, value in headers.items()}
    user = admitted(Allowing("list", *allowed), sent)
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
def test_who_may_not_is_refused(allowed: list[str], headers: dict[str, str]) -> None:
    sent = {f"impersonate-{name}": value for name, value in headers.items()}
    with pytest.raises(ApiError) as refusal:
        admitted(Allowing("list", *allowed), sent)
    assert refusal.value.code == 403


def test_the_rights_are_those_of_the_other() -> None:
    with pytest.raises(ApiError, match='User "bob" cannot list resource "pods"'):
        admitted(Allowing("impersonate"), {"impersonate-user": "bob"})


def test_masters_who_act_as_another_are_asked_as_the_other() -> None:
    root = User("root", groups=("system:masters",))
    assert admitted(Allowing(), {}, root) is root
    with pytest.raises(ApiError, match='User "bob" cannot list'):
        admitted(Allowing("impersonate"), {"impersonate-user": "bob"}, root)


def test_a_socket_into_a_pod_needs_the_right_to_create() -> None:
    request = Request("GET", f"{PODS}/a/exec")
    Gate(Allowing("get", "create")).admit(request, ROBOT)
    with pytest.raises(ApiError, match='cannot create resource "pods/exec"'):
        Gate(Allowing("get")).admit(request, ROBOT)
