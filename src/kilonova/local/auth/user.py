"""A user, as authentication finds it and everything after sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
