"""The authenticated user of a request."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kilonova.api.json import JsonObject

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
"""The group that bypasses authorization."""
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user. `extra` has further facts of the credential: its id, the pod it is
    for."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], hash=False
    )


def add_authenticated_group(user: User) -> User:
    """The same user, in the group of all authenticated users."""
    if AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def user_info(user: User) -> JsonObject:
    """The user as a UserInfo object, as in reviews and webhooks."""
    info: JsonObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {name: value for name, value in info.items() if value}
