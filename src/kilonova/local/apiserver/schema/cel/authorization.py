"""Authorization checks: `authorizer.group('apps').resource('deployments')…`.

A check is built up as a query from call to call. The authorizer is known only while an expression
is evaluated: `authorizing_with` sets it for that time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from kilonova.cel.functions.declaration import (
    FunctionLibrary,
    unwrap_opaque,
    wrap_opaque,
)
from kilonova.local.apimachinery.names import dns_label_error, dns_subdomain_error

AUTHORIZATION = FunctionLibrary()

AuthorizationQuery = dict[str, str]
"""`user` (of a ServiceAccount; else the requesting user), `path`, or `group`, `resource`,
`subresource`, `namespace`, `name`; and the `verb`.
"""

_Opaque = dict[str, str]


@dataclass(frozen=True, slots=True)
class QueryDecision:
    """Whether the request is allowed, and the reason."""

    allowed: bool
    reason: str


AuthorizeQuery = Callable[[AuthorizationQuery], QueryDecision]

_authorize_query: ContextVar[AuthorizeQuery] = ContextVar("decide")


@contextmanager
def authorizing_with(decide: AuthorizeQuery) -> Generator[None]:
    """Set the authorizer of expressions that are evaluated inside."""
    token = _authorize_query.set(decide)
    try:
        yield
    finally:
        _authorize_query.reset(token)


def authorizer_value() -> _Opaque:
    """The variable `authorizer`."""
    return wrap_opaque("authorizer", "{}")


def resource_check_value(query: AuthorizationQuery) -> _Opaque:
    """The variable `authorizer.requestResource`."""
    return wrap_opaque("resource_check", json.dumps(query))


def _extend_query(kind: str, value: _Opaque, into: str, **fields: str) -> _Opaque:
    query: AuthorizationQuery = json.loads(unwrap_opaque(kind, value))
    return wrap_opaque(into, json.dumps({**query, **fields}))


@AUTHORIZATION.method("path", "authorizer, string -> path_check")
def path(value: _Opaque, text: str) -> _Opaque:
    if not text.strip():
        raise ValueError("path must not be empty")
    return _extend_query("authorizer", value, "path_check", path=text)


@AUTHORIZATION.method("group", "authorizer, string -> group_check")
def group(value: _Opaque, text: str) -> _Opaque:
    return _extend_query("authorizer", value, "group_check", group=text)


@AUTHORIZATION.method("serviceAccount", "authorizer, string, string -> authorizer")
def service_account(value: _Opaque, namespace: str, name: str) -> _Opaque:
    if dns_subdomain_error(name):
        raise ValueError("Invalid service account name")
    if dns_label_error(namespace):
        raise ValueError("Invalid service account namespace")
    user = f"system:serviceaccount:{namespace}:{name}"
    return _extend_query("authorizer", value, "authorizer", user=user)


@AUTHORIZATION.method("resource", "group_check, string -> resource_check")
def resource(value: _Opaque, text: str) -> _Opaque:
    if not text.strip():
        raise ValueError("resource must not be empty")
    return _extend_query("group_check", value, "resource_check", resource=text)


@AUTHORIZATION.method("subresource", "resource_check, string -> resource_check")
def subresource(value: _Opaque, text: str) -> _Opaque:
    return _extend_query("resource_check", value, "resource_check", subresource=text)


@AUTHORIZATION.method("namespace", "resource_check, string -> resource_check")
def namespace(value: _Opaque, text: str) -> _Opaque:
    return _extend_query("resource_check", value, "resource_check", namespace=text)


@AUTHORIZATION.method("name", "resource_check, string -> resource_check")
def name(value: _Opaque, text: str) -> _Opaque:
    return _extend_query("resource_check", value, "resource_check", name=text)


@AUTHORIZATION.method("fieldSelector", "resource_check, string -> resource_check")
@AUTHORIZATION.method("labelSelector", "resource_check, string -> resource_check")
def selector(value: _Opaque, text: str) -> _Opaque:
    """RBAC ignores selectors: a request with a selector is allowed if it is without one."""
    del text
    return value


@AUTHORIZATION.method(
    "check", "path_check, string -> decision", "resource_check, string -> decision"
)
def check(value: _Opaque, verb: str) -> _Opaque:
    kind = "path_check" if "path_check" in value else "resource_check"
    query: AuthorizationQuery = json.loads(unwrap_opaque(kind, value))
    decision = _authorize_query.get()({**query, "verb": verb})
    return wrap_opaque("decision", ("+" if decision.allowed else "-") + decision.reason)


@AUTHORIZATION.method("allowed", "decision -> bool")
def allowed(value: _Opaque) -> bool:
    return unwrap_opaque("decision", value).startswith("+")


@AUTHORIZATION.method("reason", "decision -> string")
def reason(value: _Opaque) -> str:
    return unwrap_opaque("decision", value)[1:]


@AUTHORIZATION.method("errored", "decision -> bool")
def errored(value: _Opaque) -> bool:
    """The authorizer of this server allows or denies; it never fails."""
    del value
    return False


@AUTHORIZATION.method("error", "decision -> string")
def error(value: _Opaque) -> str:
    del value
    return ""
