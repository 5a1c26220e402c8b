"""Impersonation: the Impersonate- headers of a request.

A user may impersonate another by the verb `impersonate` on users, groups, ServiceAccounts, uids and
extras; then all permissions of the other apply. Or only for some verbs (*constrained*
impersonation): `impersonate:MODE` on the impersonated user, and `impersonate-on:MODE:VERB` on the
resource. The modes are tried in order; if none allows it, the first rejection is returned.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from kilonova.local.apimachinery.errors import ApiError, bad_request
from kilonova.local.apimachinery.names import dns_label_error, dns_subdomain_error
from kilonova.local.apiserver.auth.authorizer import (
    AuthorizationAttributes,
    Authorizer,
    forbidden_error,
)
from kilonova.local.apiserver.auth.go_quoting import go_quote
from kilonova.local.apiserver.auth.user import AUTHENTICATED, MASTERS, UNAUTHENTICATED, User

PREFIX = "impersonate-"

_SEPARATOR = "\n"  # separates the values of a repeated header; no value can contain it
_EXTRA = f"{PREFIX}extra-"
_AUTHENTICATION = "authentication.k8s.io"
_NODE = "system:node:"
_ACCOUNT = "system:serviceaccount:"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_CACHE_SIZE = 10_000


def join_impersonation_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The Impersonate- headers of a request for `requested_user`, with all repeated values."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        if name.startswith(PREFIX.encode()):
            found.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return {name: _SEPARATOR.join(values) for name, values in found.items()}


def requested_user(headers: Mapping[str, str]) -> User | None:
    """The user that a request impersonates according to its headers; None without them."""
    if not any(name.startswith(PREFIX) for name in headers):
        return None
    extra = {
        unquote(name.removeprefix(_EXTRA)): tuple(value.split(_SEPARATOR))
        for name, value in headers.items()
        if name.startswith(_EXTRA)
    }
    groups = headers.get(f"{PREFIX}group")
    user = User(
        _first_header(headers, "user"),
        _first_header(headers, "uid"),
        tuple(groups.split(_SEPARATOR)) if groups is not None else (),
        extra,
    )
    if not user.name and (user.uid or user.groups or user.extra):
        raise bad_request(f"requested {_go_format(user)} without impersonating a user name")
    return user if user.name else None


class Impersonator:
    """Decides who may impersonate whom.

    The mode that last succeeded for a requestor is tried first: most use only one. Where several
    would succeed, this shows in the groups of a node and in rejections, as in Kubernetes.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last_user: dict[str, str] = {}

    def impersonate(
        self, requestor: User, requested: User, action: AuthorizationAttributes
    ) -> User:
        """The impersonated user for this action; raises 403 if the requestor may not."""
        modes = _impersonation_modes(requestor, requested)
        modes.sort(key=lambda mode: mode != self._last_user.get(requestor.name))
        rejection: ApiError | None = None
        for mode in modes:
            try:
                user = _ImpersonationCheck(self._authorizer, requestor, mode).impersonate(
                    requested, action
                )
            except ApiError as error:
                rejection = rejection or error
            else:
                if len(self._last_user) >= _CACHE_SIZE:
                    self._last_user.clear()
                self._last_user[requestor.name] = mode
                return user
        assert rejection is not None  # the unconstrained mode always exists
        raise rejection


def _impersonation_modes(requestor: User, requested: User) -> list[str]:
    """The modes for such a user, in order; "" is unconstrained."""
    only_named = not (requested.uid or requested.groups or requested.extra)
    if node := _node_name(requested.name):
        own = (
            requestor.extra.get(_NODE_NAME) == (node,)
            and _service_account(requestor.name) is not None
        )
        constrained = ["associated-node"] * own + ["arbitrary-node"] if only_named else []
    elif _service_account(requested.name):
        constrained = ["serviceaccount"] if only_named else []
    else:
        constrained = ["user-info"]
    return [*constrained, ""]


@dataclass(frozen=True, slots=True)
class _ImpersonationCheck:
    authorizer: Authorizer
    requestor: User
    mode: str

    def impersonate(self, requested: User, action: AuthorizationAttributes) -> User:
        if self.mode:
            self._require_allowed(replace(action, verb=f"impersonate-on:{self.mode}:{action.verb}"))
        groups = self._check_name(requested)
        if requested.uid:
            self._require_allowed(self._action("uids", requested.uid, _AUTHENTICATION))
        self._check_groups(requested.groups)
        for key, values in requested.extra.items():
            for value in values:
                attributes = self._action("userextras", value, _AUTHENTICATION)
                self._check_extra(key, value, attributes)
                self._require_allowed(replace(attributes, subresource=key))
        return replace(requested, groups=_with_system_group(requested.name, groups))

    def _check_name(self, requested: User) -> tuple[str, ...]:
        """Check that the name may be impersonated; returns the groups implied by it."""
        attributes = self._action("users", requested.name)
        groups = requested.groups
        if self.mode and (node := _node_name(requested.name)):
            # Whether it is the requestor's own node was checked: the permission is for every node.
            name = "*" if self.mode == "associated-node" else node
            attributes, groups = replace(attributes, resource="nodes", name=name), ("system:nodes",)
        elif account := _service_account(requested.name):
            namespace, name = account
            attributes = replace(
                attributes, resource="serviceaccounts", namespace=namespace, name=name
            )
            groups = groups or ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        self._require_allowed(attributes)
        return groups

    def _check_groups(self, groups: tuple[str, ...]) -> None:
        for group in groups:
            attributes = self._action("groups", group)
            if self.mode and not group:
                detail = "impersonating the empty string group is not allowed"
                raise forbidden_error(self.requestor, attributes, detail)
            if self.mode and group == MASTERS:
                detail = "impersonating the system:masters group is not allowed"
                raise forbidden_error(self.requestor, attributes, detail)
        for group in groups:
            self._require_allowed(self._action("groups", group))

    def _check_extra(self, key: str, value: str, attributes: AuthorizationAttributes) -> None:
        if not self.mode:
            return
        detail = ""
        domain, _, path = key.partition("/")
        if not key:
            detail = "impersonating the empty string key in extra is not allowed"
        elif not path or dns_subdomain_error(domain) is not None:
            detail = (
                f"impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "
                f'{go_quote(key)}: must be a domain-prefixed path (such as "acme.io/foo")'
            )
        elif key != key.lower():
            detail = f"impersonating a non-lowercase key in extra is not allowed: {go_quote(key)}"
        elif not value:
            detail = "impersonating the empty string value in extra is not allowed"
        if detail:
            raise forbidden_error(self.requestor, replace(attributes, name=""), detail)

    def _action(
        self, resource: str, name: str, group: str | None = None
    ) -> AuthorizationAttributes:
        if group is None:
            group = _AUTHENTICATION if self.mode else ""
        verb = f"impersonate:{self.mode}" if self.mode else "impersonate"
        return AuthorizationAttributes(verb, group, "v1", resource, name=name)

    def _require_allowed(self, action: AuthorizationAttributes) -> None:
        verdict = self.authorizer.authorize(self.requestor, action)
        if not verdict.allowed:
            raise forbidden_error(self.requestor, action, verdict.reason)


def _with_system_group(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Add the group of authenticated or of anonymous users."""
    if name == "system:anonymous":
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if UNAUTHENTICATED in groups or AUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)


def _node_name(user: str) -> str:
    name = user.removeprefix(_NODE)
    return name if name != user and dns_subdomain_error(name) is None else ""


def _service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount that a user name denotes."""
    namespace, colon, name = user.removeprefix(_ACCOUNT).partition(":")
    if not user.startswith(_ACCOUNT) or not colon:
        return None
    if dns_label_error(namespace) is not None or dns_subdomain_error(name) is not None:
        return None
    return namespace, name


def _first_header(headers: Mapping[str, str], name: str) -> str:
    return headers.get(PREFIX + name, "").partition(_SEPARATOR)[0]


def _go_format(user: User) -> str:
    groups = ", ".join(map(go_quote, user.groups))
    extra = ", ".join(
        f"{go_quote(key)}:[]string{{{', '.join(map(go_quote, values))}}}"
        for key, values in sorted(user.extra.items())
    )
    return (
        f'&user.DefaultInfo{{Name:"", UID:{go_quote(user.uid)}, '
        f"Groups:[]string{f'{{{groups}}}' if user.groups else '(nil)'}, "
        f"Extra:map[string][]string{f'{{{extra}}}' if user.extra else '(nil)'}}}"
    )
