"""Authorizes requests, after impersonation."""

from collections.abc import Mapping
from dataclasses import replace

from kilonova.local.apiserver.auth.authorizer import (
    AuthorizationAttributes,
    Authorizer,
    forbidden_error,
)
from kilonova.local.apiserver.auth.impersonation import Impersonator, requested_user
from kilonova.local.apiserver.auth.user import MASTERS, User
from kilonova.local.apiserver.endpoints.request_info import RequestInfo

_POD_CONNECT_SUBRESOURCES = ("exec", "attach", "portforward")


class AuthorizationFilter:
    """Allows requests, or raises 403."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._impersonation = Impersonator(authorizer)

    def authorize_request(self, info: RequestInfo, headers: Mapping[str, str], user: User) -> User:
        """The effective user of this request, if it is allowed."""
        impersonated = requested_user(headers)
        if impersonated is None and MASTERS in user.groups:
            return user
        action = request_attributes(info)
        if impersonated is not None:
            user = self._impersonation.impersonate(user, impersonated, action)
        self.require_allowed(user, action)
        if action.resource == "pods" and action.subresource in _POD_CONNECT_SUBRESOURCES:
            # A WebSocket starts with GET; running a command in a pod requires the verb create.
            self.require_allowed(user, replace(action, verb="create"))
        return user

    def require_allowed(self, user: User, action: AuthorizationAttributes) -> None:
        """Raise 403 unless the user may do this too."""
        verdict = self._authorizer.authorize(user, action)
        if not verdict.allowed:
            raise forbidden_error(user, action, verdict.reason)


def request_attributes(info: RequestInfo) -> AuthorizationAttributes:
    """The authorization attributes of a request."""
    if not info.is_resource_request:
        return AuthorizationAttributes(info.verb, path=info.path)
    # A Namespace counts as being in itself.
    namespace = (
        info.name if info.resource == "namespaces" and not info.namespace else info.namespace
    )
    return AuthorizationAttributes(
        info.verb,
        info.api_group,
        info.api_version,
        info.resource,
        info.subresource,
        namespace,
        info.name or info.selected_name,
    )
