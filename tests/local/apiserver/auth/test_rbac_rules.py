"""Policy rules compared with actions, and with each other."""

import pytest

from kilonova.local.apiserver.auth.authorizer import AuthorizationAttributes
from kilonova.local.apiserver.auth.rbac import PolicyRule
from kilonova.local.apiserver.auth.rbac.rules import format_rules, uncovered_rules

GET_POD = AuthorizationAttributes("get", "", "v1", "pods", "", "shop", "a")
LOG = AuthorizationAttributes("get", "", "v1", "pods", "log", "shop", "a")
SCALE = AuthorizationAttributes("update", "apps", "v1", "deployments", "scale", "shop", "d")


@pytest.mark.parametrize(
    ("rule", "action", "allowed"),
    [
        (PolicyRule(("get",), ("",), ("pods",)), GET_POD, True),
        (PolicyRule(("*",), ("*",), ("*",)), GET_POD, True),
        (PolicyRule(("*",), ("*",), ("*",)), LOG, True),
        (PolicyRule(("list",), ("",), ("pods",)), GET_POD, False),
        (PolicyRule(("get",), ("apps",), ("pods",)), GET_POD, False),
        (PolicyRule(("get",), ("",), ("pods",)), LOG, False),
        (PolicyRule(("get",), ("",), ("pods/log",)), LOG, True),
        (PolicyRule(("get",), ("",), ("pods/log",)), GET_POD, False),
        (PolicyRule(("get",), ("",), ("pods/*",)), LOG, False),
        (PolicyRule(("get",), ("",), ("*/log",)), LOG, True),
        (PolicyRule(("get",), ("",), ("*/log",)), GET_POD, False),
        (PolicyRule(("update",), ("apps",), ("*/scale",)), SCALE, True),
        (PolicyRule(("get",), ("",), ("pods",), ("a", "b")), GET_POD, True),
        (PolicyRule(("get",), ("",), ("pods",), ("b",)), GET_POD, False),
        (
            PolicyRule(("list",), ("",), ("pods",), ("a",)),
            AuthorizationAttributes("list", resource="pods"),
            False,
        ),
        (PolicyRule(("get",), non_resource_urls=("/metrics",)), GET_POD, False),
        (
            PolicyRule(("*",), ("*",), ("*",)),
            AuthorizationAttributes("get", path="/metrics"),
            False,
        ),
        (
            PolicyRule(("get",), non_resource_urls=("*",)),
            AuthorizationAttributes("get", path="/x"),
            True,
        ),
        (
            PolicyRule(("get",), non_resource_urls=("/api/*",)),
            AuthorizationAttributes("get", path="/api/v1"),
            True,
        ),
        (
            PolicyRule(("get",), non_resource_urls=("/api/*",)),
            AuthorizationAttributes("get", path="/api"),
            False,
        ),
        (
            PolicyRule(("get",), non_resource_urls=("/api",)),
            AuthorizationAttributes("get", path="/api/v1"),
            False,
        ),
        (
            PolicyRule(("get",), non_resource_urls=("/x",)),
            AuthorizationAttributes("post", path="/x"),
            False,
        ),
    ],
)
def test_rule_allows_an_action(
    rule: PolicyRule, action: AuthorizationAttributes, allowed: bool
) -> None:
    assert rule.allows(action) is allowed


@pytest.mark.parametrize(
    ("held", "expected", "missing_rules"),
    [
        (
            [],
            PolicyRule(("get",), ("",), ("pods",)),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        (
            [PolicyRule(("*",), ("*",), ("*",))],
            PolicyRule(("get", "x"), ("", "apps"), ("pods", "a/b")),
            [],
        ),
        (
            [PolicyRule(("get",), ("",), ("pods",))],
            PolicyRule(("get", "list", "watch"), ("",), ("pods",)),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}'],
        ),
        (
            [PolicyRule(("get",), ("",), ("pods",), ("a",))],
            PolicyRule(("get",), ("",), ("pods",)),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        (
            [PolicyRule(("get",), ("",), ("pods",), ("a",))],
            PolicyRule(("get",), ("",), ("pods",), ("a", "b")),
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
        ),
        ([PolicyRule(("get",), ("",), ("*/log",))], PolicyRule(("get",), ("",), ("pods/log",)), []),
        (
            [PolicyRule(("get",), non_resource_urls=("/api/*",))],
            PolicyRule(("get",), non_resource_urls=("/api/v1", "/x")),
            ['{NonResourceURLs:["/x"], Verbs:["get"]}'],
        ),
    ],
)
def test_uncovered_rules_are_listed(
    held: list[PolicyRule], expected: PolicyRule, missing_rules: list[str]
) -> None:
    assert format_rules(uncovered_rules(held, [expected])) == missing_rules
