"""Who may do what: the question, and whoever answers it."""

from dataclasses import dataclass
from typing import Protocol

from kilonova.local.auth.user import User


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
    path: str = ""
    """Of what is no resource: `/healthz`. Then all above but the verb are empty."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it is allowed; `reason` is for people."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides without waiting: what it needs to know is in memory."""

    def decide(self, user: User, action: Action) -> Verdict: ...


class AlwaysAllow:
    """Everybody who is known may do everything."""

    def decide(self, user: User, action: Action) -> Verdict:
        return Verdict(allowed=True)
