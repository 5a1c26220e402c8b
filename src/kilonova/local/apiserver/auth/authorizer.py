"""The interface of authorizers, and the 403 error."""

from dataclasses import dataclass
from typing import Protocol

from kilonova.local.apimachinery.errors import ApiError, forbidden
from kilonova.local.apiserver.auth.go_quoting import go_quote
from kilonova.local.apiserver.auth.user import User


@dataclass(frozen=True, slots=True)
class AuthorizationAttributes:
    """A verb on a resource, or on a non-resource path."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None
    """A non-resource path: `/healthz`. Then all fields above but the verb are empty."""

    @property
    def qualified_resource(self) -> str:
        """As rules write it: `pods`, `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class AuthorizationDecision:
    """Whether the request is allowed; `reason` is for the message."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides without waiting: all that it needs is in memory."""

    def authorize(self, user: User, action: AuthorizationAttributes) -> AuthorizationDecision: ...


def forbidden_error(user: User, action: AuthorizationAttributes, reason: str = "") -> ApiError:
    """The 403 error for a user who may not do this."""
    message = _escape_html(_describe_denial(user, action)) + (f": {reason}" if reason else "")
    if action.path is not None or not action.resource:
        details = {"name": action.name} if action.name else {}
        return ApiError(403, "Forbidden", f"forbidden: {message}", details)
    return forbidden(action.group, action.resource, action.name, message)


def _describe_denial(user: User, action: AuthorizationAttributes) -> str:
    subject = f"User {go_quote(user.name)} cannot {action.verb}"
    if action.path is not None:
        return f"{subject} path {go_quote(action.path)}"
    namespace_scope = f"in the namespace {go_quote(action.namespace)}"
    return (
        f"{subject} resource {go_quote(action.qualified_resource)} "
        f"in API group {go_quote(action.group)} "
        f"{namespace_scope if action.namespace else 'at the cluster scope'}"
    )


def _escape_html(text: str) -> str:
    """Escape HTML, so that browsers do not interpret it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
