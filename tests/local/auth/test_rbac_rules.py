"""Rules against actions, and against each other."""

import pytest

from kilonova.local.auth.authorizer import Action
from kilonova.local.auth.rbac import Rule
from kilonova.local.auth.rbac.rules import compact, missing

GET_POD = Action("get", "", "v1", "pods", "", "shop", "a")
LOG = Action("get", "", "v1", "pods", "log", "shop", "a")
SCALE = Action("update", "apps", "v1", "deployments", "scale", "shop", "d")


@pytest.mark.parametrize(
    ("rule", "action", "allowed"),
    [
        (Rule(("get",), ("",), ("pods",)), GET_POD, True),
        (Rule(("*",), ("*",), ("*",)), GET_POD, True),
        (Rule(("*",), ("*",), ("*",)), LOG, True),
        (Rule(("list",), ("",), ("pods",)), GET_POD, False),
        (Rule(("get",), ("apps",), ("pods",)), GET_POD, False),
        (Rule(("get",), ("",), ("pods",)), LOG, False),
        (Rule(("get",), ("",), ("pods/log",)), LOG, True),
        (Rule(("get",), ("",), ("pods/log",)), GET_POD, False),
        (Rule(("get",), ("",), ("pods/*",)), LOG, False),
        (Rule(("get",), ("",), ("*/log",)), LOG, True),
        (Rule(("get",), ("",), ("*/log",)), GET_POD, False),
        (Rule(("update",), ("apps",), ("*/scale",)), SCALE, True),
        (Rule(("get",), ("",), ("pods",), ("a", "b")), GET_POD, True),
        (Rule(("get",), ("",), ("pods",), ("b",)), GET_POD, False),
        (Rule(("list",), ("",), ("pods",), ("a",)), Action("list", resource="pods"), False),
        (Rule(("get",), non_resource_urls=("/metrics",)), GET_POD, False),
        (Rule(("*",), ("*",), ("*",)), Action("get", path="/metrics"), False),
        (Rule(("get",), non_resource_urls=("*",)), Action("get", path="/x"), True),
        (Rule(("get",), non_resource_urls=("/api/*",)), Action("get", path="/api/v1"), True),
        (Rule(("get",), non_resource_urls=("/api/*",)), Action("get", path="/api"), False),
        (Rule(("get",), non_resource_urls=("/api",)), Action("get", path="/api/v1"), False),
        (Rule(("get",), non_resource_urls=("/x",)), Action("post", path="/x"), False),
    ],
)
def test_a_rule_allows_an_action(rule: Rule, action: Action, allowed: bool) -> None:
    assert rule.allows(action) is allowed


@pytest.mark.parametrize(
    ("held", "wanted", "lacking"),
    [
        (
            [],
            Rule(("get",), ("",), ("pods",)),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        ([Rule(("*",), ("*",), ("*",))], Rule(("get", "x"), ("", "apps"), ("pods", "a/b")), []),
        (
            [Rule(("get",), ("",), ("pods",))],
            Rule(("get", "list", "watch"), ("",), ("pods",)),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}'],
        ),
        (
            [Rule(("get",), ("",), ("pods",), ("a",))],
            Rule(("get",), ("",), ("pods",)),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        (
            [Rule(("get",), ("",), ("pods",), ("a",))],
            Rule(("get",), ("",), ("pods",), ("a", "b")),
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
        ),
        ([Rule(("get",), ("",), ("*/log",))], Rule(("get",), ("",), ("pods/log",)), []),
        (
            [Rule(("get",), non_resource_urls=("/api/*",))],
            Rule(("get",), non_resource_urls=("/api/v1", "/x")),
            ['{NonResourceURLs:["/x"], Verbs:["get"]}'],
        ),
    ],
)
def test_what_is_lacking_is_listed(held: list[Rule], wanted: Rule, lacking: list[str]) -> None:
    assert compact(missing(held, [wanted])) == lacking
