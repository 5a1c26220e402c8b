"""A user, as authentication finds it and everything after sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kilonova.api.json import JsonObject

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
"""The group that is asked nothing."""
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class User:
    """Who is asking. `extra` is what the credential says beside: its id, the pod it is for."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], hash=False
    )


def authenticated(user: User) -> User:
    """The same user, in the group of all who proved who they are."""
    if AUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def user_info(user: User) -> JsonObject:
    """The user as a UserInfo object, as reviews and webhooks are shown it."""
    info: JsonObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {name: value for name, value in info.items() if value}
