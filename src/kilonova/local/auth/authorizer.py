"""Who may do what: the question, whoever answers it, and the refusal."""

from dataclasses import dataclass
from typing import Protocol

from kilonova.local.auth.user import User
from kilonova.local.auth.words import quoted
from kilonova.local.errors import ApiError, forbidden


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody is about to do: a verb on a resource, or on a path that is none."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None
    """Of what is no resource: `/healthz`. Then all above but the verb are empty."""

    @property
    def whole_resource(self) -> str:
        """As rules name it: `pods`, `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it is allowed; `reason` is for people."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides without waiting: what it needs to know is in memory."""

    def decide(self, user: User, action: Action) -> Verdict: ...


def refused(user: User, action: Action, reason: str = "") -> ApiError:
    """The 403 for somebody who may not do this."""
    message = _harmless(_sentence(user, action)) + (f": {reason}" if reason else "")
    if action.path is not None or not action.resource:
        details = {"name": action.name} if action.name else {}
        return ApiError(403, "Forbidden", f"forbidden: {message}", details)
    return forbidden(action.group, action.resource, action.name, message)


def _sentence(user: User, action: Action) -> str:
    who = f"User {quoted(user.name)} cannot {action.verb}"
    if action.path is not None:
        return f"{who} path {quoted(action.path)}"
    place = f"in the namespace {quoted(action.namespace)}"
    return (
        f"{who} resource {quoted(action.whole_resource)} in API group {quoted(action.group)} "
        f"{place if action.namespace else 'at the cluster scope'}"
    )


def _harmless(text: str) -> str:
    """Text that no browser takes for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
