"""Questions about who may do what: `authorizer.group('apps').resource('deployments')…`.

What is asked travels as a question that grows from step to step. Who is asked is known only
while an expression runs: `answering` sets it for that time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from kilonova.local.names import dns_label, dns_subdomain
from kilonova.local.schema.cel.functions.declare import Library, opened, sealed

AUTHORIZATION = Library()

Question = dict[str, str]
"""`user` (of a ServiceAccount; else whoever sent the request), `path`, or `group`, `resource`,
`subresource`, `namespace`, `name`; and the `verb`."""

_Sealed = dict[str, str]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether it is allowed, and why."""

    allowed: bool
    reason: str


Decide = Callable[[Question], Decision]

_decide: ContextVar[Decide] = ContextVar("decide")


@contextmanager
def answering(decide: Decide) -> Generator[None]:
    """Who answers the questions of expressions that run inside."""
    token = _decide.set(decide)
    try:
        yield
    finally:
        _decide.reset(token)


def authorizer() -> _Sealed:
    """The variable `authorizer`."""
    return sealed("authorizer", "{}")


def resource_check(question: Question) -> _Sealed:
    """The variable `authorizer.requestResource`."""
    return sealed("resource_check", json.dumps(question))


def _with(kind: str, value: _Sealed, into: str, **more: str) -> _Sealed:
    question: Question = json.loads(opened(kind, value))
    return sealed(into, json.dumps({**question, **more}))


@AUTHORIZATION.method("path", "authorizer, string -> path_check")
def path(value: _Sealed, text: str) -> _Sealed:
    if not text.strip():
        raise ValueError("path must not be empty")
    return _with("authorizer", value, "path_check", path=text)


@AUTHORIZATION.method("group", "authorizer, string -> group_check")
def group(value: _Sealed, text: str) -> _Sealed:
    return _with("authorizer", value, "group_check", group=text)


@AUTHORIZATION.method("serviceAccount", "authorizer, string, string -> authorizer")
def service_account(value: _Sealed, namespace: str, name: str) -> _Sealed:
    if dns_subdomain(name):
        raise ValueError("Invalid service account name")
    if dns_label(namespace):
        raise ValueError("Invalid service account namespace")
    user = f"system:serviceaccount:{namespace}:{name}"
    return _with("authorizer", value, "authorizer", user=user)


@AUTHORIZATION.method("resource", "group_check, string -> resource_check")
def resource(value: _Sealed, text: str) -> _Sealed:
    if not text.strip():
        raise ValueError("resource must not be empty")
    return _with("group_check", value, "resource_check", resource=text)


@AUTHORIZATION.method("subresource", "resource_check, string -> resource_check")
def subresource(value: _Sealed, text: str) -> _Sealed:
    return _with("resource_check", value, "resource_check", subresource=text)


@AUTHORIZATION.method("namespace", "resource_check, string -> resource_check")
def namespace(value: _Sealed, text: str) -> _Sealed:
    return _with("resource_check", value, "resource_check", namespace=text)


@AUTHORIZATION.method("name", "resource_check, string -> resource_check")
def name(value: _Sealed, text: str) -> _Sealed:
    return _with("resource_check", value, "resource_check", name=text)


@AUTHORIZATION.method("fieldSelector", "resource_check, string -> resource_check")
@AUTHORIZATION.method("labelSelector", "resource_check, string -> resource_check")
def selector(value: _Sealed, text: str) -> _Sealed:
    """RBAC does not look at selectors: whoever may do it with one may do it without."""
    del text
    return value


@AUTHORIZATION.method(
    "check", "path_check, string -> decision", "resource_check, string -> decision"
)
def check(value: _Sealed, verb: str) -> _Sealed:
    kind = "path_check" if "path_check" in value else "resource_check"
    question: Question = json.loads(opened(kind, value))
    verdict = _decide.get()({**question, "verb": verb})
    return sealed("decision", ("+" if verdict.allowed else "-") + verdict.reason)


@AUTHORIZATION.method("allowed", "decision -> bool")
def allowed(value: _Sealed) -> bool:
    return opened("decision", value).startswith("+")


@AUTHORIZATION.method("reason", "decision -> string")
def reason(value: _Sealed) -> str:
    return opened("decision", value)[1:]


@AUTHORIZATION.method("errored", "decision -> bool")
def errored(value: _Sealed) -> bool:
    """The authorizer of this server knows or refuses; it never fails."""
    del value
    return False


@AUTHORIZATION.method("error", "decision -> string")
def error(value: _Sealed) -> str:
    del value
    return ""
