"""Decisions by roles and bindings: a table, and a comparison with a naive evaluation."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apiserver.auth.authorizer import AuthorizationAttributes, AuthorizationDecision
from kilonova.local.apiserver.auth.rbac import PolicyRule, RbacAuthorizer, RbacPolicy
from kilonova.local.apiserver.auth.user import User


def role(rules: list[PolicyRule]) -> bytes:
    return msgspec.json.encode({"rules": rules})


def binding(kind: str, name: str, *subjects: dict[str, str]) -> bytes:
    return msgspec.json.encode({"roleRef": {"kind": kind, "name": name}, "subjects": subjects})


def user(name: str) -> dict[str, str]:
    return {"kind": "User", "name": name}


READ = PolicyRule(("get", "list"), ("",), ("pods",))
LIST = AuthorizationAttributes("list", "", "v1", "pods", "", "shop")


@pytest.fixture
def rbac() -> RbacAuthorizer:
    policy = RbacPolicy()
    policy.set_role("reader", role([READ]))
    policy.set_role("shop/keeper", role([PolicyRule(("*",), ("",), ("pods",), ("a",))]))
    policy.set_binding("everywhere", binding("ClusterRole", "reader", user("amy")))
    policy.set_binding(
        "shop/here",
        binding(
            "ClusterRole",
            "reader",
            {"kind": "Group", "name": "team"},
            {"kind": "ServiceAccount", "name": "robot"},
        ),
    )
    policy.set_binding("shop/keep", binding("Role", "keeper", user("kim")))
    policy.set_binding("shop/broken", binding("Role", "none", user("kim")))
    return RbacAuthorizer(policy)


@pytest.mark.parametrize(
    ("requester", "action", "verdict"),
    [
        (
            User("amy"),
            LIST,
            AuthorizationDecision(
                True,
                'RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole '
                '"reader" to User "amy"',
            ),
        ),
        (
            User("amy"),
            AuthorizationAttributes("delete", resource="pods", namespace="shop"),
            AuthorizationDecision(False),
        ),
        (
            User("x", groups=("other", "team")),
            LIST,
            AuthorizationDecision(
                True,
                'RBAC: allowed by RoleBinding "here/shop" of ClusterRole "reader" to Group "team"',
            ),
        ),
        (
            User("x", groups=("team",)),
            AuthorizationAttributes("list", resource="pods"),
            AuthorizationDecision(False),
        ),
        (
            User("system:serviceaccount:shop:robot"),
            LIST,
            AuthorizationDecision(
                True,
                'RBAC: allowed by RoleBinding "here/shop" of ClusterRole "reader" to '
                'ServiceAccount "robot/shop"',
            ),
        ),
        (User("system:serviceaccount:other:robot"), LIST, AuthorizationDecision(False)),
        (
            User("kim"),
            AuthorizationAttributes("delete", resource="pods", namespace="shop", name="a"),
            AuthorizationDecision(
                True, 'RBAC: allowed by RoleBinding "keep/shop" of Role "keeper" to User "kim"'
            ),
        ),
        (
            User("kim"),
            AuthorizationAttributes("delete", resource="pods", namespace="shop", name="b"),
            AuthorizationDecision(False, 'RBAC: role.rbac.authorization.k8s.io "none" not found'),
        ),
        (
            User("root", groups=("system:masters",)),
            AuthorizationAttributes("x", path="/y"),
            AuthorizationDecision(True),
        ),
    ],
)
def test_decision_has_a_reason(
    rbac: RbacAuthorizer,
    requester: User,
    action: AuthorizationAttributes,
    verdict: AuthorizationDecision,
) -> None:
    assert rbac.authorize(requester, action) == verdict
    assert rbac.authorize(requester, action) == verdict  # from the cache


def test_policy_change_takes_effect_at_once(rbac: RbacAuthorizer) -> None:
    assert not rbac.authorize(User("zoe"), LIST).allowed
    rbac.policy.set_binding("shop/here", binding("ClusterRole", "reader", user("zoe")))
    assert rbac.authorize(User("zoe"), LIST).allowed
    assert not rbac.authorize(User("x", groups=("team",)), LIST).allowed
    rbac.policy.set_role("reader", None)
    assert not rbac.authorize(User("zoe"), LIST).allowed
    rbac.policy.set_role("reader", role([READ]))
    rbac.policy.set_binding("shop/here", None)
    assert not rbac.authorize(User("zoe"), LIST).allowed


def test_decision_cache_is_bounded(rbac: RbacAuthorizer) -> None:
    for number in range(5000):
        assert not rbac.authorize(User(f"stranger-{number}"), LIST).allowed
        assert not rbac.authorize(
            User("kim"), AuthorizationAttributes("get", path=f"/{number}")
        ).allowed
    assert len(rbac._cache) <= 1024  # pyright: ignore[reportPrivateUsage]
    assert all(len(retained) <= 4096 for retained in rbac._cache.values())  # pyright: ignore[reportPrivateUsage]


VERBS, GROUPS, RESOURCES = (
    ("get", "list", "*"),
    ("", "apps", "*"),
    ("pods", "pods/log", "*/log", "*"),
)
NAMES, PATHS = ("a", "b"), ("/x", "/x/*", "*")
PLACES = ("", "one", "two")


def some(values: tuple[str, ...], least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=2).map(tuple)


rules = st.one_of(
    st.builds(PolicyRule, some(VERBS), some(GROUPS), some(RESOURCES), some(NAMES, 0)),
    st.builds(PolicyRule, some(VERBS), non_resource_urls=some(PATHS)),
)
subjects = st.sampled_from(
    [
        user("amy"),
        {"kind": "Group", "name": "team"},
        {"kind": "ServiceAccount", "name": "robot"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "two"},
    ]
)
roles = st.dictionaries(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(("r", "s"))),
    st.lists(rules, max_size=2),
)
bindings = st.dictionaries(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(("x", "y", "z"))),
    st.tuples(
        st.sampled_from(("Role", "ClusterRole")),
        st.sampled_from(("r", "s")),
        st.lists(subjects, max_size=2),
    ),
)
users = st.sampled_from(
    [
        User("amy"),
        User("bob", groups=("team", "other")),
        User("system:serviceaccount:one:robot"),
        User("system:serviceaccount:two:robot", groups=("team",)),
    ]
)
actions = st.one_of(
    st.builds(
        AuthorizationAttributes,
        st.sampled_from(("get", "list", "delete")),
        st.sampled_from(("", "apps")),
        st.just("v1"),
        st.sampled_from(("pods", "nodes")),
        st.sampled_from(("", "log")),
        st.sampled_from(PLACES),
        st.sampled_from(("", "a", "c")),
    ),
    st.builds(
        lambda verb, path: AuthorizationAttributes(verb, path=path),
        st.sampled_from(("get", "post")),
        st.sampled_from(("/x", "/x/y", "/z")),
    ),
)


def naively(roles: Any, bindings: Any, requester: User, action: AuthorizationAttributes) -> bool:
    """As documented: evaluate every binding, subject and rule."""
    for (position, _), (kind, name, subjects) in bindings.items():
        if position not in ("", action.namespace):
            continue
        for subject in subjects:
            if subject["kind"] == "User":
                means = requester.name == subject["name"]
            elif subject["kind"] == "Group":
                means = subject["name"] in requester.groups
            else:
                where = subject.get("namespace") or position
                means = bool(where) and requester.name == f"system:serviceaccount:{where}:robot"
            found = roles.get((position if kind == "Role" else "", name), [])
            if means and any(rule.allows(action) for rule in found):
                return True
    return False


@given(roles, bindings, st.lists(st.tuples(users, actions), min_size=1, max_size=8))
def test_decisions_match_a_naive_evaluation(
    roles: Any, bindings: Any, requested: list[tuple[User, AuthorizationAttributes]]
) -> None:
    policy = RbacPolicy()
    rbac = RbacAuthorizer(policy)
    for (position, name), found in roles.items():
        policy.set_role(f"{position}/{name}" if position else name, role(found))
    for (position, name), (kind, of, subjects) in bindings.items():
        policy.set_binding(f"{position}/{name}" if position else name, binding(kind, of, *subjects))
    for requester, action in requested:
        expected = naively(roles, bindings, requester, action)
        assert rbac.authorize(requester, action).allowed is expected
        held, _ = rbac.rules_for(requester, action.namespace)
        assert any(rule.allows(action) for rule in held) is expected
