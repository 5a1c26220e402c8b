"""Decisions by roles and bindings: a table, and a comparison with looking at everything."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.auth.authorizer import Action, Verdict
from kilonova.local.auth.rbac import Policy, Rbac, Rule
from kilonova.local.auth.user import User


def role(rules: list[Rule]) -> bytes:
    return msgspec.json.encode({"rules": rules})


def binding(kind: str, name: str, *subjects: dict[str, str]) -> bytes:
    return msgspec.json.encode({"roleRef": {"kind": kind, "name": name}, "subjects": subjects})


def user(name: str) -> dict[str, str]:
    return {"kind": "User", "name": name}


READ = Rule(("get", "list"), ("",), ("pods",))
LIST = Action("list", "", "v1", "pods", "", "shop")


@pytest.fixture
def rbac() -> Rbac:
    policy = Policy()
    policy.keep_role("reader", role([READ]))
    policy.keep_role("shop/keeper", role([Rule(("*",), ("",), ("pods",), ("a",))]))
    policy.keep_binding("everywhere", binding("ClusterRole", "reader", user("amy")))
    policy.keep_binding(
        "shop/here",
        binding(
            "ClusterRole",
            "reader",
            {"kind": "Group", "name": "team"},
            {"kind": "ServiceAccount", "name": "robot"},
        ),
    )
    policy.keep_binding("shop/keep", binding("Role", "keeper", user("kim")))
    policy.keep_binding("shop/broken", binding("Role", "none", user("kim")))
    return Rbac(policy)


@pytest.mark.parametrize(
    ("who", "action", "verdict"),
    [
        (
            User("amy"),
            LIST,
            Verdict(True, 'RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole '
                    '"reader" to User "amy"'),
        ),
        (User("amy"), Action("delete", resource="pods", namespace="shop"), Verdict(False)),
        (
            User("x", groups=("other", "team")),
            LIST,
            Verdict(True, 'RBAC: allowed by RoleBinding "here/shop" of ClusterRole "reader" to '
                    'Group "team"'),
        ),
        (User("x", groups=("team",)), Action("list", resource="pods"), Verdict(False)),
        (
            User("system:serviceaccount:shop:robot"),
            LIST,
            Verdict(True, 'RBAC: allowed by RoleBinding "here/shop" of ClusterRole "reader" to '
                    'ServiceAccount "robot/shop"'),
        ),
        (User("system:serviceaccount:other:robot"), LIST, Verdict(False)),
        (
            User("kim"),
            Action("delete", resource="pods", namespace="shop", name="a"),
            Verdict(True, 'RBAC: allowed by RoleBinding "keep/shop" of Role "keeper" to '
                    'User "kim"'),
        ),
        (
            User("kim"),
            Action("delete", resource="pods", namespace="shop", name="b"),
            Verdict(False, 'RBAC: role.rbac.authorization.k8s.io "none" not found'),
        ),
        (User("root", groups=("system:masters",)), Action("x", path="/y"), Verdict(True)),
    ],
)  # fmt: skip
def test_a_decision_tells_its_reason(
    rbac: Rbac, who: User, action: Action, verdict: Verdict
) -> None:
    assert rbac.decide(who, action) == verdict
    assert rbac.decide(who, action) == verdict  # from what was kept


def test_a_change_counts_at_once(rbac: Rbac) -> None:
    assert not rbac.decide(User("zoe"), LIST).allowed
    rbac.policy.keep_binding("shop/here", binding("ClusterRole", "reader", user("zoe")))
    assert rbac.decide(User("zoe"), LIST).allowed
    assert not rbac.decide(User("x", groups=("team",)), LIST).allowed
    rbac.policy.keep_role("reader", None)
    assert not rbac.decide(User("zoe"), LIST).allowed
    rbac.policy.keep_role("reader", role([READ]))
    rbac.policy.keep_binding("shop/here", None)
    assert not rbac.decide(User("zoe"), LIST).allowed


def test_many_strangers_do_not_fill_the_memory(rbac: Rbac) -> None:
    for number in range(5000):
        assert not rbac.decide(User(f"stranger-{number}"), LIST).allowed
        assert not rbac.decide(User("kim"), Action("get", path=f"/{number}")).allowed
    assert len(rbac._kept) <= 1024  # pyright: ignore[reportPrivateUsage]
    assert all(len(kept) <= 4096 for kept in rbac._kept.values())  # pyright: ignore[reportPrivateUsage]


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
    st.builds(Rule, some(VERBS), some(GROUPS), some(RESOURCES), some(NAMES, 0)),
    st.builds(Rule, some(VERBS), non_resource_urls=some(PATHS)),
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
        Action,
        st.sampled_from(("get", "list", "delete")),
        st.sampled_from(("", "apps")),
        st.just("v1"),
        st.sampled_from(("pods", "nodes")),
        st.sampled_from(("", "log")),
        st.sampled_from(PLACES),
        st.sampled_from(("", "a", "c")),
    ),
    st.builds(
        lambda verb, path: Action(verb, path=path),
        st.sampled_from(("get", "post")),
        st.sampled_from(("/x", "/x/y", "/z")),
    ),
)


def naively(roles: Any, bindings: Any, who: User, action: Action) -> bool:
    """By the words of the documentation: look at every binding, subject and rule."""
    for (place, _), (kind, name, subjects) in bindings.items():
        if place not in ("", action.namespace):
            continue
        for subject in subjects:
            if subject["kind"] == "User":
                means = who.name == subject["name"]
            elif subject["kind"] == "Group":
                means = subject["name"] in who.groups
            else:
                where = subject.get("namespace") or place
                means = bool(where) and who.name == f"system:serviceaccount:{where}:robot"
            found = roles.get((place if kind == "Role" else "", name), [])
            if means and any(rule.allows(action) for rule in found):
                return True
    return False


@given(roles, bindings, st.lists(st.tuples(users, actions), min_size=1, max_size=8))
def test_decisions_are_those_of_looking_at_everything(
    roles: Any, bindings: Any, asked: list[tuple[User, Action]]
) -> None:
    policy = Policy()
    rbac = Rbac(policy)
    for (place, name), found in roles.items():
        policy.keep_role(f"{place}/{name}" if place else name, role(found))
    for (place, name), (kind, of, subjects) in bindings.items():
        policy.keep_binding(f"{place}/{name}" if place else name, binding(kind, of, *subjects))
    for who, action in asked:
        expected = naively(roles, bindings, who, action)
        assert rbac.decide(who, action).allowed is expected
        held, _ = rbac.rules_for(who, action.namespace)
        assert any(rule.allows(action) for rule in held) is expected
