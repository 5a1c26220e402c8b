"""The gate that every request passes: who acts, and whether they may."""

from dataclasses import replace

from kilonova.kube.transport import Request
from kilonova.local.auth.actions import action_of
from kilonova.local.auth.authorizer import Action, Authorizer, refused
from kilonova.local.auth.impersonation import Impersonation, wanted_user
from kilonova.local.auth.user import MASTERS, User

_INTO_A_POD = ("exec", "attach", "portforward")


class Gate:
    """Lets requests through, or raises 403."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._impersonation = Impersonation(authorizer)

    def admit(self, request: Request, user: User) -> User:
        """Who acts in this request, if they may."""
        wanted = wanted_user(request.headers)
        if wanted is None and MASTERS in user.groups:
            return user
        action = action_of(request)
        if wanted is not None:
            user = self._impersonation.user(user, wanted, action)
        self.require(user, action)
        if action.resource == "pods" and action.subresource in _INTO_A_POD:
            # A WebSocket begins with GET; who runs something in a pod must be allowed to create.
            self.require(user, replace(action, verb="create"))
        return user

    def require(self, user: User, action: Action) -> None:
        """Raise 403 unless the user may do this as well."""
        verdict = self._authorizer.decide(user, action)
        if not verdict.allowed:
            raise refused(user, action, verdict.reason)
