"""Acting as somebody else: the Impersonate- headers of a request.

Somebody may take another's name by the verb `impersonate` on users, groups, ServiceAccounts, uids
and extras; then they may do all that the other may. Or they may do so only for some verbs
(*constrained* impersonation): `impersonate:MODE` on whom, and `impersonate-on:MODE:VERB` on what.
The modes are tried in turn; if none lets them, the first refusal is told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from kilonova.local.auth.authorizer import Action, Authorizer, refused
from kilonova.local.auth.user import AUTHENTICATED, MASTERS, UNAUTHENTICATED, User
from kilonova.local.auth.words import quoted
from kilonova.local.errors import ApiError, bad_request
from kilonova.local.names import dns_label, dns_subdomain

PREFIX = "impersonate-"

_SEPARATOR = "\n"  # between the values of a header that was sent several times; none can have it
_EXTRA = f"{PREFIX}extra-"
_AUTHENTICATION = "authentication.k8s.io"
_NODE = "system:node:"
_ACCOUNT = "system:serviceaccount:"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_KEPT = 10_000


def joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The Impersonate- headers of a request as `wanted_user` takes them, none of them lost."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        if name.startswith(PREFIX.encode()):
            found.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return {name: _SEPARATOR.join(values) for name, values in found.items()}


def wanted_user(headers: Mapping[str, str]) -> User | None:
    """Whom a request wants to act as, just as its headers say; None where it does not."""
    if not any(name.startswith(PREFIX) for name in headers):
        return None
    extra = {
        unquote(name.removeprefix(_EXTRA)): tuple(value.split(_SEPARATOR))
        for name, value in headers.items()
        if name.startswith(_EXTRA)
    }
    groups = headers.get(f"{PREFIX}group")
    user = User(
        _first(headers, "user"),
        _first(headers, "uid"),
        tuple(groups.split(_SEPARATOR)) if groups is not None else (),
        extra,
    )
    if not user.name and (user.uid or user.groups or user.extra):
        raise bad_request(f"requested {_go_syntax(user)} without impersonating a user name")
    return user if user.name else None


class Impersonation:
    """Decides who may act as whom.

    The mode that last served a requestor is tried first: most use one only. That may be seen,
    where several would serve, in the groups of a node and in refusals; it is so in Kubernetes.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last: dict[str, str] = {}

    def user(self, requestor: User, wanted: User, action: Action) -> User:
        """The user to act as for this action; raises 403 if the requestor may not."""
        modes = _modes(requestor, wanted)
        modes.sort(key=lambda mode: mode != self._last.get(requestor.name))
        refusal: ApiError | None = None
        for mode in modes:
            try:
                user = _Check(self._authorizer, requestor, mode).user(wanted, action)
            except ApiError as error:
                refusal = refusal or error
            else:
                if len(self._last) >= _KEPT:
                    self._last.clear()
                self._last[requestor.name] = mode
                return user
        assert refusal is not None  # there is always the mode without constraint
        raise refusal


def _modes(requestor: User, wanted: User) -> list[str]:
    """The modes that there are for such a user, in the order of their trying; "": plain."""
    only_named = not (wanted.uid or wanted.groups or wanted.extra)
    if node := _node_of(wanted.name):
        own = requestor.extra.get(_NODE_NAME) == (node,) and _account_of(requestor.name) is not None
        constrained = ["associated-node"] * own + ["arbitrary-node"] if only_named else []
    elif _account_of(wanted.name):
        constrained = ["serviceaccount"] if only_named else []
    else:
        constrained = ["user-info"]
    return [*constrained, ""]


@dataclass(frozen=True, slots=True)
class _Check:
    authorizer: Authorizer
    requestor: User
    mode: str

    def user(self, wanted: User, action: Action) -> User:
        if self.mode:
            self._require(replace(action, verb=f"impersonate-on:{self.mode}:{action.verb}"))
        groups = self._check_name(wanted)
        if wanted.uid:
            self._require(self._action("uids", wanted.uid, _AUTHENTICATION))
        self._check_groups(wanted.groups)
        for key, values in wanted.extra.items():
            for value in values:
                what = self._action("userextras", value, _AUTHENTICATION)
                self._check_extra(key, value, what)
                self._require(replace(what, subresource=key))
        return replace(wanted, groups=_completed(wanted.name, groups))

    def _check_name(self, wanted: User) -> tuple[str, ...]:
        """Whether they may take the name; and the groups that come with it."""
        what = self._action("users", wanted.name)
        groups = wanted.groups
        if self.mode and (node := _node_of(wanted.name)):
            # Whose own node it is has been seen: the right is for every node.
            name = "*" if self.mode == "associated-node" else node
            what, groups = replace(what, resource="nodes", name=name), ("system:nodes",)
        elif account := _account_of(wanted.name):
            namespace, name = account
            what = replace(what, resource="serviceaccounts", namespace=namespace, name=name)
            groups = groups or ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        self._require(what)
        return groups

    def _check_groups(self, groups: tuple[str, ...]) -> None:
        for group in groups:
            what = self._action("groups", group)
            if self.mode and not group:
                detail = "impersonating the empty string group is not allowed"
                raise refused(self.requestor, what, detail)
            if self.mode and group == MASTERS:
                detail = "impersonating the system:masters group is not allowed"
                raise refused(self.requestor, what, detail)
        for group in groups:
            self._require(self._action("groups", group))

    def _check_extra(self, key: str, value: str, what: Action) -> None:
        if not self.mode:
            return
        detail = ""
        domain, _, path = key.partition("/")
        if not key:
            detail = "impersonating the empty string key in extra is not allowed"
        elif not path or dns_subdomain(domain) is not None:
            detail = (
                f"impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "
                f'{quoted(key)}: must be a domain-prefixed path (such as "acme.io/foo")'
            )
        elif key != key.lower():
            detail = f"impersonating a non-lowercase key in extra is not allowed: {quoted(key)}"
        elif not value:
            detail = "impersonating the empty string value in extra is not allowed"
        if detail:
            raise refused(self.requestor, replace(what, name=""), detail)

    def _action(self, resource: str, name: str, group: str | None = None) -> Action:
        if group is None:
            group = _AUTHENTICATION if self.mode else ""
        verb = f"impersonate:{self.mode}" if self.mode else "impersonate"
        return Action(verb, group, "v1", resource, name=name)

    def _require(self, action: Action) -> None:
        verdict = self.authorizer.decide(self.requestor, action)
        if not verdict.allowed:
            raise refused(self.requestor, action, verdict.reason)


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """With the group of all who are known, or of those who are not."""
    if name == "system:anonymous":
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if UNAUTHENTICATED in groups or AUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)


def _node_of(user: str) -> str:
    name = user.removeprefix(_NODE)
    return name if name != user and dns_subdomain(name) is None else ""


def _account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount that a user name means."""
    namespace, colon, name = user.removeprefix(_ACCOUNT).partition(":")
    if not user.startswith(_ACCOUNT) or not colon:
        return None
    if dns_label(namespace) is not None or dns_subdomain(name) is not None:
        return None
    return namespace, name


def _first(headers: Mapping[str, str], name: str) -> str:
    return headers.get(PREFIX + name, "").partition(_SEPARATOR)[0]


def _go_syntax(user: User) -> str:
    groups = ", ".join(map(quoted, user.groups))
    extra = ", ".join(
        f"{quoted(key)}:[]string{{{', '.join(map(quoted, values))}}}"
        for key, values in sorted(user.extra.items())
    )
    return (
        f'&user.DefaultInfo{{Name:"", UID:{quoted(user.uid)}, '
        f"Groups:[]string{f'{{{groups}}}' if user.groups else '(nil)'}, "
        f"Extra:map[string][]string{f'{{{extra}}}' if user.extra else '(nil)'}}}"
    )
